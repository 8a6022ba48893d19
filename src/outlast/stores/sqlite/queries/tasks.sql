-- part: task_columns
id, task_type, queue, priority, parameters, status, resource, unique_key, attempt, retry_count, crash_count, suspect,
    lease_epoch, worker_id, deferrals, replays, last_error, next_run_after, expires_at, started_at, failed_at,
    finished_at, created_at, updated_at, options

-- name: get_task
-- Used by the page of one task.
SELECT {task_columns} FROM task_queue WHERE id = :id

-- name: find_tasks
-- One statement for all combinations of filters. The paged lists use the scans below instead.
SELECT {task_columns} FROM task_queue
WHERE (:status IS NULL OR status = :status)
    AND (:queue IS NULL OR queue = :queue)
    AND (:task_type IS NULL OR task_type = :task_type)
    AND (:before IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit

-- name: scan_tasks
-- Newest first; the reader stops when it has enough.
SELECT id,
    (:status IS NULL OR status = :status)
    AND (:queue IS NULL OR queue = :queue)
    AND (:task_type IS NULL OR task_type = :task_type)
FROM task_queue WHERE id < :before ORDER BY id DESC

-- name: search_tasks
-- The same scan. Rows whose unique key or stored arguments have the text also return both: the caller checks what is
-- shown of them.
SELECT id, CASE WHEN matches THEN unique_key END, CASE WHEN matches THEN parameters END
FROM (
    SELECT id, unique_key, parameters,
        (:status IS NULL OR status = :status)
        AND (:queue IS NULL OR queue = :queue)
        AND (:task_type IS NULL OR task_type = :task_type)
        AND (unique_key IS :text OR holds(:text, '', parameters)) AS matches
    FROM task_queue WHERE id < :before ORDER BY id DESC
)

-- name: scan_failed_tasks
-- A failed task has a dead letter, whose index is in the order of task ids.
SELECT task_queue.id,
    task_queue.status = 'FAILED'
    AND (:queue IS NULL OR task_queue.queue = :queue)
    AND (:task_type IS NULL OR task_queue.task_type = :task_type)
FROM dead_letter_queue AS letter CROSS JOIN task_queue ON task_queue.id = letter.original_task_id
WHERE letter.original_task_id < :before
ORDER BY letter.original_task_id DESC

-- name: scan_tasks_by_id
-- Tasks of one live status, newest first: for when there are few.
SELECT id,
    (:queue IS NULL OR queue = :queue)
    AND (:task_type IS NULL OR task_type = :task_type)
FROM task_queue WHERE id IN (SELECT value FROM json_each(:ids)) AND id < :before ORDER BY id DESC

-- name: queued_ids
-- From the two partial indexes that hold queued tasks.
SELECT id FROM (
    SELECT id FROM task_queue INDEXED BY task_queue_ready WHERE status = 'QUEUED' AND suspect = 0
    UNION ALL
    SELECT id FROM task_queue INDEXED BY task_queue_suspects WHERE status = 'QUEUED' AND suspect = 1
)
LIMIT :most

-- name: running_ids
-- The partial index holds only running tasks.
SELECT id FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING' LIMIT :most

-- name: parked_ids
-- The partial index holds only parked tasks.
SELECT id FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED' LIMIT :most

-- name: list_tasks_by_id
-- The rows of a page, after a scan has found their ids. Without arguments, which may be large.
SELECT id, task_type, queue, priority, status, resource, retry_count, worker_id, last_error, next_run_after, finished_at,
    created_at
FROM task_queue WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id DESC

-- name: attempts
-- Used by the page of one task, oldest first.
SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, traceback, failure
FROM task_attempts WHERE task_id = :id ORDER BY id

-- name: recorded_tasks
-- Along the primary key: a history is read page by page, newest first, and needs no index of its own.
SELECT id, task_type, resource, status, deferrals, replays, crash_count, started_at, coalesce(finished_at, failed_at),
    created_at, NULL
FROM task_queue WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: attempts_of_tasks
-- The failed attempts of one page, by the index on the task; without tracebacks, which nobody reads here.
SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, '', failure
FROM task_attempts WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY id

-- name: result
-- An expired result is treated as gone, even before it is deleted.
SELECT result FROM task_results WHERE task_id = :id AND expires_at > :now

-- name: cancel
-- Running tasks are left alone: a thread cannot be stopped.
UPDATE task_queue SET status = 'CANCELLED', finished_at = :now, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('QUEUED', 'PARKED')
RETURNING id

-- name: run_now
-- A task that is already due keeps its place. Parked and running tasks are not changed.
UPDATE task_queue SET next_run_after = min(next_run_after, :now), updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'QUEUED'
RETURNING id

-- name: unpark
-- In batches along the partial index of parked tasks, so that other writers do not wait long.
UPDATE task_queue SET status = 'QUEUED', updated_at = :now
WHERE id IN (
    SELECT id FROM task_queue INDEXED BY task_queue_parked
    WHERE status = 'PARKED' AND task_type IN (SELECT value FROM json_each(:task_types))
    LIMIT :batch
)

-- name: count_waiting_for_resource
-- Counts at most :most rows, so a large backlog does not make the page slow.
SELECT count(*) FROM (
    SELECT 1 FROM task_queue INDEXED BY task_queue_resource WHERE status = 'QUEUED' AND resource = :resource LIMIT :most
)

-- name: pause_queue
-- A queue without a row is not paused, so resuming deletes the row.
INSERT INTO queues (name, paused) VALUES (:name, 1) ON CONFLICT (name) DO UPDATE SET paused = 1

-- name: delete_queue
-- Resumes a queue.
DELETE FROM queues WHERE name = :name

-- name: queues
-- From the partial indexes of queued, running and parked tasks: finished tasks are never read.
SELECT name, max(paused), sum(ready), sum(scheduled), sum(running), sum(parked) FROM (
    SELECT name, paused, 0 AS ready, 0 AS scheduled, 0 AS running, 0 AS parked FROM queues
    UNION ALL
    SELECT queue, 0, sum(next_run_after <= :now), sum(next_run_after > :now), 0, 0
    FROM task_queue INDEXED BY task_queue_ready WHERE status = 'QUEUED' AND suspect = 0 GROUP BY queue
    UNION ALL
    SELECT queue, 0, sum(next_run_after <= :now), sum(next_run_after > :now), 0, 0
    FROM task_queue INDEXED BY task_queue_suspects WHERE status = 'QUEUED' AND suspect = 1 GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, count(*), 0 FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING' GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, 0, count(*) FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED' GROUP BY queue
)
GROUP BY name ORDER BY name

-- part: is_middle_early
(SELECT created_at FROM task_queue WHERE id >= low + (high - low) / 2 ORDER BY id LIMIT 1) < :now - :window

-- name: sample_finished
-- Reads at most :most rows, however many there are: ids are in the order of creation, so the window is a range of them
-- (found by bisection), of which every n-th is read.
WITH RECURSIVE bisection (low, high) AS (
    SELECT coalesce((SELECT min(id) FROM task_queue), 1), coalesce((SELECT max(id) FROM task_queue), 0) + 1
    UNION ALL
    SELECT CASE WHEN {is_middle_early} THEN low + (high - low) / 2 + 1 ELSE low END,
        CASE WHEN {is_middle_early} THEN high ELSE low + (high - low) / 2 END
    FROM bisection WHERE low < high
),
bounds (low, high, stride) AS MATERIALIZED (
    SELECT max(low), max(high) - 1, (max(high) - 1 - max(low)) / :most + 1 FROM bisection
),
picks (id) AS (
    SELECT low FROM bounds WHERE low <= high
    UNION ALL
    SELECT picks.id + stride FROM picks CROSS JOIN bounds WHERE picks.id + stride <= high
)
SELECT DISTINCT task_queue.id, stride, task_type, status, next_run_after, started_at, coalesce(finished_at, failed_at)
FROM picks CROSS JOIN bounds
CROSS JOIN task_queue ON task_queue.id = (SELECT id FROM task_queue WHERE id >= picks.id ORDER BY id LIMIT 1)
WHERE status IN ('DONE', 'FAILED') AND coalesce(finished_at, failed_at) IS NOT NULL
ORDER BY task_queue.id

-- name: newest_finished
-- The newest tasks of the window; columns as in sample_finished.
SELECT id, 1, task_type, status, next_run_after, started_at, coalesce(finished_at, failed_at)
FROM (SELECT * FROM task_queue ORDER BY id DESC LIMIT :most)
WHERE created_at >= :now - :window AND status IN ('DONE', 'FAILED') AND coalesce(finished_at, failed_at) IS NOT NULL
ORDER BY id
