-- part: task_columns
id, task_type, queue, priority, parameters, status, resource, unique_key, attempt, retry_count, crash_count, suspect,
    lease_epoch, worker_id, deferrals, replays, last_error, next_run_after, expires_at, started_at, failed_at, finished_at,
    created_at, updated_at, options

-- part: task_line_columns
id, task_type, queue, priority, status, resource, retry_count, worker_id, last_error, next_run_after, finished_at,
    created_at

-- name: get_task
-- Used by the page of one task.
SELECT {task_columns}
FROM {schema}task_queue WHERE id = %(id)s

-- name: find_tasks
-- One statement for all combinations of filters; it is planned for each call.
SELECT {task_columns}
FROM {schema}task_queue
WHERE (%(status)s::text IS NULL OR status = %(status)s::text)
    AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
    AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
    AND (%(before)s::bigint IS NULL OR id < %(before)s::bigint)
ORDER BY id DESC LIMIT %(limit)s

-- part: task_page_rows
SELECT place, last, matches, {task_line_columns}
FROM (
    SELECT row_number() OVER walk AS place, lead(id) OVER walk IS NULL AS last,
        (%(status)s::text IS NULL OR status = %(status)s::text)
            AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text) AS matches,
        scanned.*
    FROM (
        SELECT {task_line_columns}
        FROM {schema}task_queue

-- part: task_page_end
        LIMIT %(look)s + 1
    ) AS scanned
    WINDOW walk AS (ORDER BY id DESC)
) AS looked
WHERE place <= %(look)s AND matches OR place = %(look)s OR last
ORDER BY id DESC LIMIT %(rows)s

-- part: live_task_rows
WITH live AS MATERIALIZED (
    SELECT {task_line_columns}
    FROM (

-- part: live_task_end
    ) AS scanned
    LIMIT %(look)s + 1
)
SELECT looked, found.*
FROM (SELECT count(*) AS looked FROM live) AS whole
LEFT JOIN LATERAL (
    SELECT * FROM live
    WHERE id < %(before)s AND looked <= %(look)s
        AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
        AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
    ORDER BY id DESC LIMIT %(rows)s
) AS found ON true
ORDER BY found.id DESC

-- name: list_tasks
-- Newest first, reading at most `look` rows. The last row read is returned even if it does not match: paging continues
-- there.
{task_page_rows}
        WHERE id < %(before)s
        ORDER BY id DESC
{task_page_end}

-- name: search_tasks
-- The same scan. Rows whose unique key or stored arguments have the text also return both: the caller checks what is
-- shown of them. Arguments may be large, so the others return none.
SELECT place, last, matches, {task_line_columns}, CASE WHEN matches THEN unique_key END,
    CASE WHEN matches THEN parameters END
FROM (
    SELECT row_number() OVER walk AS place, lead(id) OVER walk IS NULL AS last,
        (%(status)s::text IS NULL OR status = %(status)s::text)
            AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
            AND (
                (unique_key = %(exact)s::text) IS TRUE
                OR %(text)s::text IS NOT NULL AND strpos(lower(parameters), lower(%(text)s::text)) > 0
                OR %(pattern)s::text IS NOT NULL AND parameters ~* %(pattern)s::text
            ) AS matches,
        scanned.*
    FROM (
        SELECT {task_line_columns}, unique_key, parameters
        FROM {schema}task_queue
        WHERE id < %(before)s
        ORDER BY id DESC
        LIMIT %(look)s + 1
    ) AS scanned
    WINDOW walk AS (ORDER BY id DESC)
) AS looked
WHERE place <= %(look)s AND matches OR place = %(look)s OR last
ORDER BY id DESC

-- name: list_failed_tasks
-- A failed task has a dead letter, whose index is in the order of task ids.
{task_page_rows}
        JOIN (
            SELECT original_task_id FROM {schema}dead_letter_queue
            WHERE original_task_id < %(before)s ORDER BY original_task_id DESC LIMIT %(look)s + 1
        ) AS letter ON letter.original_task_id = task_queue.id
        ORDER BY id DESC
{task_page_end}

-- name: list_queued_tasks
-- Live tasks have small partial indexes. They are sorted if there are at most `look`; every row says how many there
-- are.
{live_task_rows}
        (
            SELECT * FROM {schema}task_queue
            WHERE status = 'QUEUED' AND NOT suspect AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            ORDER BY queue, priority, next_run_after, id LIMIT %(look)s + 1
        )
        UNION ALL
        (
            SELECT * FROM {schema}task_queue
            WHERE status = 'QUEUED' AND suspect AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            ORDER BY queue, next_run_after, id LIMIT %(look)s + 1
        )
{live_task_end}

-- name: list_running_tasks
-- The same with the index of running tasks.
{live_task_rows}
        SELECT * FROM {schema}task_queue
        WHERE status = 'RUNNING' ORDER BY worker_id LIMIT %(look)s + 1
{live_task_end}

-- name: list_parked_tasks
-- The same with the index of parked tasks.
{live_task_rows}
        SELECT * FROM {schema}task_queue
        WHERE status = 'PARKED' AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
        ORDER BY task_type LIMIT %(look)s + 1
{live_task_end}

-- name: attempts
-- Used by the page of one task, oldest first.
SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, traceback, failure
FROM {schema}task_attempts WHERE task_id = %(id)s ORDER BY id

-- name: recorded_tasks
-- Along the primary key: a history is read page by page, newest first, and needs no index of its own.
SELECT id, task_type, resource, status, deferrals, replays, crash_count, started_at, coalesce(finished_at, failed_at),
    created_at, NULL
FROM {schema}task_queue WHERE id < %(before)s ORDER BY id DESC LIMIT %(limit)s

-- name: attempts_of_tasks
-- The failed attempts of one page, by the index on the task; without tracebacks, which nobody reads here.
SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, '', failure
FROM {schema}task_attempts WHERE task_id = ANY (%(ids)s::bigint[]) ORDER BY id

-- name: result
-- An expired result is treated as gone, even before it is deleted.
SELECT result FROM {schema}task_results WHERE task_id = %(id)s AND expires_at > now()

-- name: cancel
-- Running tasks are left alone: a thread cannot be stopped.
WITH chosen AS MATERIALIZED (
    SELECT id FROM {schema}task_queue
    WHERE id = ANY (%(ids)s::bigint[]) AND status IN ('QUEUED', 'PARKED')
    ORDER BY id
    FOR UPDATE
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = 'CANCELLED', finished_at = now(), updated_at = now()
    FROM chosen WHERE task.id = chosen.id
    RETURNING task.id
),
counted AS (
    INSERT INTO {schema}task_flow (event, n) SELECT 'cancelled', count(*) FROM changed HAVING count(*) > 0
)
SELECT id FROM changed

-- name: run_now
-- Locked in order of id, which prevents deadlocks. A task that is already due keeps its place.
WITH chosen AS MATERIALIZED (
    SELECT id FROM {schema}task_queue
    WHERE id = ANY (%(ids)s::bigint[]) AND status = 'QUEUED'
    ORDER BY id
    FOR UPDATE
)
UPDATE {schema}task_queue AS task
SET next_run_after = least(task.next_run_after, now()), updated_at = now()
FROM chosen WHERE task.id = chosen.id
RETURNING task.id

-- name: unpark
-- In batches. A locked task is being changed by somebody else: skipped.
WITH chosen AS MATERIALIZED (
    SELECT id FROM {schema}task_queue
    WHERE status = 'PARKED' AND task_type = ANY (%(task_types)s::text[])
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
UPDATE {schema}task_queue AS task SET status = 'QUEUED', updated_at = now() FROM chosen WHERE task.id = chosen.id

-- name: count_waiting_for_resource
-- ORDER BY follows the index, so the planner reads the index.
SELECT count(*)
FROM (
    SELECT FROM {schema}task_queue
    WHERE status = 'QUEUED' AND resource IS NOT NULL AND resource = %(resource)s
    ORDER BY next_run_after LIMIT %(most)s
) AS waiting

-- name: pause_queue
-- A queue without a row is not paused, so resuming deletes the row.
INSERT INTO {schema}queues (name, paused) VALUES (%(name)s, true) ON CONFLICT (name) DO UPDATE SET paused = true

-- name: delete_queue
-- Resumes a queue.
DELETE FROM {schema}queues WHERE name = %(name)s

-- name: queues
-- One index per status, so finished tasks are never read. ORDER BY and LIMIT make the planner use that index.
SELECT name, bool_or(paused), sum(ready)::bigint, sum(scheduled)::bigint, sum(running)::bigint, sum(parked)::bigint
FROM (
    SELECT name, paused, 0 AS ready, 0 AS scheduled, 0 AS running, 0 AS parked FROM {schema}queues
    UNION ALL
    SELECT queue, false, count(*) FILTER (WHERE next_run_after <= now()), count(*) FILTER (WHERE next_run_after > now()), 0, 0
    FROM (
        SELECT queue, next_run_after FROM {schema}task_queue WHERE status = 'QUEUED' AND NOT suspect
        ORDER BY queue, priority, next_run_after, id LIMIT 9223372036854775807
    ) AS waiting
    GROUP BY queue
    UNION ALL
    SELECT queue, false, count(*) FILTER (WHERE next_run_after <= now()), count(*) FILTER (WHERE next_run_after > now()), 0, 0
    FROM {schema}task_queue WHERE status = 'QUEUED' AND suspect GROUP BY queue
    UNION ALL
    SELECT queue, false, 0, 0, count(*), 0 FROM {schema}task_queue WHERE status = 'RUNNING' GROUP BY queue
    UNION ALL
    SELECT queue, false, 0, 0, 0, count(*) FROM {schema}task_queue WHERE status = 'PARKED' GROUP BY queue
) AS every
GROUP BY name ORDER BY name

-- name: sample_finished
-- Reads at most `most` rows, however many there are: ids are in the order of creation, so the window is a range of them
-- (found by bisection), of which every n-th is read.
WITH RECURSIVE bisection (low, high) AS (
    SELECT coalesce((SELECT min(id) FROM {schema}task_queue), 1),
        coalesce((SELECT max(id) FROM {schema}task_queue), 0) + 1
    UNION ALL
    SELECT CASE WHEN is_early THEN middle + 1 ELSE low END, CASE WHEN is_early THEN high ELSE middle END
    FROM (
        SELECT low, high, low + (high - low) / 2 AS middle, coalesce((
            SELECT created_at FROM {schema}task_queue WHERE id >= low + (high - low) / 2 ORDER BY id LIMIT 1
        ) < now() - %(window)s::interval, false) AS is_early
        FROM bisection WHERE low < high
    ) AS halves
),
bounds AS MATERIALIZED (
    SELECT max(low) AS low, max(high) - 1 AS high, (max(high) - 1 - max(low)) / %(most)s + 1 AS stride FROM bisection
)
SELECT DISTINCT found.id, stride, task_type, status, next_run_after, started_at, coalesce(finished_at, failed_at)
FROM bounds
CROSS JOIN LATERAL generate_series(low, high, stride) AS pick
CROSS JOIN LATERAL (
    SELECT * FROM {schema}task_queue WHERE id >= pick ORDER BY id LIMIT 1
) AS found
WHERE status IN ('DONE', 'FAILED') AND coalesce(finished_at, failed_at) IS NOT NULL
ORDER BY found.id

-- name: newest_finished
-- The newest tasks of the window; columns as in sample_finished.
SELECT id, 1, task_type, status, next_run_after, started_at, coalesce(finished_at, failed_at)
FROM (SELECT * FROM {schema}task_queue ORDER BY id DESC LIMIT %(most)s) AS newest
WHERE created_at >= now() - %(window)s::interval AND status IN ('DONE', 'FAILED')
    AND coalesce(finished_at, failed_at) IS NOT NULL
ORDER BY id
