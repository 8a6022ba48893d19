-- name: worker_and_pauses
-- What every settle-and-claim checks first: whether the worker is registered, which queues are paused, whether anything
-- cools down.
SELECT
    (SELECT 1 FROM workers WHERE id = :worker_id),
    (SELECT json_group_array(name) FROM queues WHERE paused = 1),
    EXISTS (SELECT 1 FROM cooldowns WHERE until > :now)

-- name: claimable_tasks
-- CROSS JOIN fixes the loop order: priorities, then queues, then the index from its oldest entry, up to the limit. All
-- rows return as one JSON text: one step instead of one per row.
WITH priorities (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT json_group_array(json_array(
    id, lease_epoch + 1, task_type, parameters, attempt + 1, retry_count, resource,
    CASE WHEN expires_at IS NOT NULL THEN (expires_at - :now) / 1000.0 END,
    CASE WHEN deferred_at IS NULL THEN 0.0 ELSE (:now - deferred_at) / 1000.0 END,
    canary, options
))
FROM (
    SELECT task_queue.*
    FROM priorities
    CROSS JOIN json_each(:queues) AS wanted
    CROSS JOIN task_queue INDEXED BY task_queue_ready
    WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 0
        AND task_queue.queue = wanted.value AND task_queue.priority = priorities.priority
        AND task_queue.next_run_after <= :now
        AND (task_queue.resource IS NULL
            OR task_queue.resource NOT IN (SELECT resource FROM cooldowns WHERE until > :now))
    LIMIT :limit
)

-- name: claimable_suspects
-- Tasks that were running when a worker died.
SELECT json_group_array(json_array(
    id, lease_epoch + 1, task_type, parameters, attempt + 1, retry_count, resource,
    CASE WHEN expires_at IS NOT NULL THEN (expires_at - :now) / 1000.0 END,
    CASE WHEN deferred_at IS NULL THEN 0.0 ELSE (:now - deferred_at) / 1000.0 END,
    canary, options, crash_count
))
FROM (
    SELECT task_queue.*
    FROM json_each(:queues) AS wanted
    CROSS JOIN task_queue INDEXED BY task_queue_suspects
    WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 1
        AND task_queue.queue = wanted.value AND task_queue.next_run_after <= :now
        AND (task_queue.resource IS NULL
            OR task_queue.resource NOT IN (SELECT resource FROM cooldowns WHERE until > :now))
    LIMIT :limit
)

-- name: claim_and_start
-- Claimed and started in one step: if the worker dies, the attempt is spent.
UPDATE task_queue
SET status = 'RUNNING', lease_epoch = lease_epoch + 1, worker_id = :worker_id, attempt = attempt + 1,
    started_at = :now, updated_at = :now, alone = :alone
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: claim_without_start
-- Not started: if the worker dies, no attempt is spent.
UPDATE task_queue
SET status = 'RUNNING', lease_epoch = lease_epoch + 1, worker_id = :worker_id, started_at = NULL, updated_at = :now,
    alone = 0
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: mark_started
-- For tasks that were claimed earlier. The epoch is the fence; a second call changes nothing.
UPDATE task_queue
SET attempt = attempt + 1, started_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND lease_epoch = :epoch AND status = 'RUNNING' AND started_at IS NULL

-- name: suspects_due
-- While other tasks are due, at most half of the workers run suspects. A suspect runs alone, so a worker's first task
-- tells.
WITH wanted (queue) AS MATERIALIZED (
    SELECT value FROM json_each(:queues) WHERE value NOT IN (SELECT name FROM queues WHERE paused = 1)
),
priorities (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT CASE
    WHEN NOT EXISTS (
        SELECT 1 FROM wanted
        CROSS JOIN task_queue INDEXED BY task_queue_suspects
        WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 1 AND task_queue.queue = wanted.queue
            AND task_queue.next_run_after <= :now
    ) THEN 0
    WHEN NOT EXISTS (
        SELECT 1 FROM wanted CROSS JOIN priorities
        CROSS JOIN task_queue INDEXED BY task_queue_ready
        WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 0 AND task_queue.queue = wanted.queue
            AND task_queue.priority = priorities.priority AND task_queue.next_run_after <= :now
    ) THEN 1
    ELSE (
        SELECT coalesce(sum((
            SELECT alone FROM task_queue INDEXED BY task_queue_held
            WHERE status = 'RUNNING' AND worker_id = workers.id
            LIMIT 1
        )), 0) < max(1, count(*) / 2)
        FROM workers
        WHERE expires_at > :now
            AND EXISTS (SELECT 1 FROM json_each(workers.queues) AS theirs WHERE theirs.value IN (SELECT queue FROM wanted))
    )
END

-- name: next_due
-- Reads the first index entry of each queue and priority. Paused queues do not count.
WITH priorities (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT (min(due) - :now) / 1000.0 FROM (
    SELECT (
        SELECT next_run_after FROM task_queue INDEXED BY task_queue_ready
        WHERE status = 'QUEUED' AND suspect = 0 AND queue = wanted.value AND priority = priorities.priority
        ORDER BY next_run_after LIMIT 1
    ) AS due
    FROM json_each(:queues) AS wanted CROSS JOIN priorities
    WHERE wanted.value NOT IN (SELECT name FROM queues WHERE paused = 1)
    UNION ALL
    SELECT (
        SELECT next_run_after FROM task_queue INDEXED BY task_queue_suspects
        WHERE status = 'QUEUED' AND suspect = 1 AND queue = wanted.value
        ORDER BY next_run_after LIMIT 1
    )
    FROM json_each(:queues) AS wanted
    WHERE wanted.value NOT IN (SELECT name FROM queues WHERE paused = 1)
)

-- name: lost_claims
-- Tasks that another worker holds now. One with our epoch that no longer runs was settled by us: only the answer got
-- lost.
SELECT settled.id
FROM (SELECT value ->> 0 AS id, value ->> 1 AS epoch FROM json_each(:done)) AS settled
LEFT JOIN task_queue ON task_queue.id = settled.id
WHERE task_queue.lease_epoch IS NOT settled.epoch

-- name: attempt_state
-- What a task queue such as Celery asks before it runs a message.
SELECT task_type, status, retry_count, lease_epoch,
    CASE WHEN expires_at IS NOT NULL THEN (expires_at - :now) / 1000.0 END,
    CASE WHEN deferred_at IS NULL THEN 0.0 ELSE (:now - deferred_at) / 1000.0 END,
    canary
FROM task_queue
WHERE id = :id

-- name: start_attempt
-- The first message gets the attempt. A suspect counts as running alone, although an external worker cannot guarantee
-- it: otherwise a task that kills its worker would do so forever. If the worker dies, the task is due at once.
UPDATE task_queue
SET status = 'RUNNING', attempt = attempt + 1, started_at = :now, worker_id = :worker_id, lease_epoch = lease_epoch + 1,
    alone = suspect, next_run_after = :now, updated_at = :now
WHERE id = :id AND retry_count = :attempt - 1 AND (status = 'QUEUED' OR (status = 'RUNNING' AND started_at IS NULL))
RETURNING lease_epoch

-- name: take_attempt
-- For a report that settles the task in the same transaction. Nobody saw the start of an unclaimed task, so the report
-- marks it.
UPDATE task_queue
SET status = 'RUNNING',
    attempt = attempt + (status = 'QUEUED' OR started_at IS NULL),
    started_at = CASE WHEN status = 'RUNNING' THEN coalesce(started_at, :now) ELSE :now END,
    worker_id = CASE WHEN status = 'RUNNING' THEN worker_id ELSE :reporter END,
    lease_epoch = lease_epoch + (status = 'QUEUED')
WHERE id = :id AND status IN ('QUEUED', 'RUNNING') AND retry_count = :attempt - 1
    AND (:epoch IS NULL OR lease_epoch = :epoch)
    AND (NOT :unbegun OR status = 'QUEUED' OR started_at IS NULL)
RETURNING lease_epoch

-- name: release_to_engine
-- Handed to an external broker; not due again before its message can be considered lost.
UPDATE task_queue
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL), started_at = NULL, alone = 0,
    next_run_after = :now + :delay, updated_at = :now
WHERE (id, lease_epoch) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:tasks)) AND status = 'RUNNING'

-- name: tasks_of_worker
-- What a worker of an external task queue holds. The index contains only running tasks.
SELECT id, lease_epoch FROM task_queue WHERE status = 'RUNNING' AND worker_id = :worker_id

-- name: latest_by_key
-- Keys with this prefix have their own index, which includes finished tasks.
SELECT id FROM task_queue
WHERE unique_key = :unique_key AND unique_key >= 'celery:' AND unique_key < 'celery;' AND task_type = :task_type
ORDER BY id DESC LIMIT 1
