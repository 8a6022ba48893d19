-- part: is_held
-- The epoch is the fence. `BETWEEN 1 AND …` and `status || ''` make the planner look ids up: see settle_and_claim.
given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'

-- part: note_columns
error_type, error_message, error_category, fingerprint, traceback, failure

-- part: note_types
error_type text, error_message text, error_category text, fingerprint text, traceback text, failure text

-- part: insert_attempts
INSERT INTO {schema}task_attempts (task_id, attempt, outcome, worker_id, started_at, finished_at, {note_columns})

-- part: insert_dead_letters
INSERT INTO {schema}dead_letter_queue
        (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
         reason, {note_columns},
         retry_count, crash_count, replays, replay_id, worker_id, created_at, moved_to_dlq_at, options)
    SELECT id, task_type, queue, priority, parameters, resource, unique_key,
        reason, {note_columns},
        retry_count, crash_count, replays, replay_id, worker_id, created_at, now(), options
    FROM changed JOIN given USING (id)

-- name: settle_done
-- Successes that keep a result.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(settlements)s::json) AS given (id bigint, epoch integer, result text, keep float8)
    ORDER BY id
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = 'DONE', finished_at = now(), updated_at = now(), suspect = false, alone = false
    FROM given
    WHERE {is_held}
    RETURNING task.id
),
counted AS (
    INSERT INTO {schema}task_flow (event, n) SELECT 'done', count(*) FROM changed HAVING count(*) > 0
),
kept AS (
    INSERT INTO {schema}task_results (task_id, result, expires_at)
    SELECT id, result, now() + make_interval(secs => keep) FROM changed JOIN given USING (id) WHERE result IS NOT NULL
    ON CONFLICT (task_id) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at
)
SELECT id, '' FROM changed

-- name: settle_retry
-- All retries of a batch in one statement, locked in order of id. Without a note no attempt is recorded.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(settlements)s::json) AS given (
        id bigint, epoch integer, delay float8, suspect boolean, noted boolean, {note_types}
    )
    ORDER BY id
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = 'QUEUED', retry_count = retry_count + 1, last_error = CASE WHEN noted THEN error_message END,
        next_run_after = now() + make_interval(secs => delay), updated_at = now(), suspect = given.suspect, alone = false,
        deferred_at = NULL
    FROM given
    WHERE {is_held}
    RETURNING task.id, task.task_type, task.attempt, task.worker_id, task.started_at
),
history AS (
    INSERT INTO {schema}task_attempts
        (task_id, attempt, outcome, worker_id, started_at, finished_at,
         error_type, error_message, error_category, fingerprint, delay, traceback, failure)
    SELECT id, attempt, 'retry', worker_id, started_at, now(),
        error_type, error_message, error_category, fingerprint, delay, traceback, failure
    FROM changed JOIN given USING (id)
    WHERE noted
    ORDER BY id
)
SELECT id, task_type FROM changed

-- name: settle_fail
-- Ends the task, adds its last attempt and its dead letter in one statement: all or nothing.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(settlements)s::json) AS given (
        id bigint, epoch integer, reason text, noted boolean, {note_types}
    )
    ORDER BY id
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = 'FAILED', retry_count = retry_count + noted::integer, last_error = error_message, failed_at = now(),
        updated_at = now(), suspect = false, alone = false
    FROM given
    WHERE {is_held}
    RETURNING task.*
),
history AS (
    {insert_attempts}
    SELECT id, attempt, 'fail', worker_id, started_at, now(), {note_columns}
    FROM changed JOIN given USING (id)
    ORDER BY id
),
letters AS (
    {insert_dead_letters}
    ORDER BY id
)
SELECT id, task_type FROM changed

-- name: settle_defer
-- No attempt is spent. While the resource cools down, the task waits for the end of the cooldown.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(settlements)s::json)
        AS given (id bigint, epoch integer, delay float8, suspect boolean, noted boolean, error_message text)
    ORDER BY id
)
UPDATE {schema}task_queue AS task
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL,
    deferrals = deferrals + 1, deferred_at = coalesce(deferred_at, now()),
    last_error = CASE WHEN noted THEN error_message ELSE last_error END,
    next_run_after = greatest(
        now() + make_interval(secs => delay),
        (SELECT until FROM {schema}cooldowns WHERE cooldowns.resource = task.resource)
    ),
    updated_at = now(), suspect = given.suspect, alone = false
FROM given
WHERE {is_held}
RETURNING task.id, task.task_type

-- name: settle_crash
-- The process of a suspect died. Without a reason it runs alone again after the delay; with one it becomes a dead
-- letter.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(settlements)s::json) AS given (
        id bigint, epoch integer, delay float8, reason text, {note_types}
    )
    ORDER BY id
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = CASE WHEN reason IS NULL THEN 'QUEUED' ELSE 'FAILED' END, suspect = reason IS NULL, alone = false,
        crash_count = crash_count + 1, last_error = error_message, updated_at = now(),
        next_run_after = CASE WHEN reason IS NULL THEN now() + make_interval(secs => delay) ELSE task.next_run_after END,
        failed_at = CASE WHEN reason IS NULL THEN task.failed_at ELSE now() END
    FROM given
    WHERE {is_held}
    RETURNING task.*
),
history AS (
    {insert_attempts}
    SELECT id, attempt, 'lost', worker_id, started_at, now(), {note_columns}
    FROM changed JOIN given USING (id)
    ORDER BY id
),
letters AS (
    {insert_dead_letters}
    WHERE reason IS NOT NULL
    ORDER BY id
)
SELECT id, task_type FROM changed

-- name: settle_park
-- No worker knows the task's name; it waits for one that does.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(settlements)s::json) AS given (id bigint, epoch integer) ORDER BY id
)
UPDATE {schema}task_queue AS task
SET status = 'PARKED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL, alone = false,
    updated_at = now()
FROM given
WHERE {is_held}
RETURNING task.id, task.task_type

-- name: settle_release
-- Back to the state before the claim: the start is not counted. With a delay it is not due earlier.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(settlements)s::json) AS given (id bigint, epoch integer, delay float8) ORDER BY id
)
UPDATE {schema}task_queue AS task
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL, alone = false,
    updated_at = now(),
    next_run_after = CASE WHEN delay > 0 THEN now() + make_interval(secs => delay) ELSE next_run_after END
FROM given
WHERE {is_held}
RETURNING task.id, task.task_type

-- name: record_failures
-- Counters and groups of all failures of a transaction. Groups are inserted in order of fingerprint, which prevents
-- deadlocks.
WITH counted AS (
    INSERT INTO {schema}task_flow (event, task_type, category, fingerprint, n)
    SELECT event, task_type, category, fingerprint, n
    FROM json_to_recordset(%(counts)s::json)
        AS given (event text, task_type text, category text, fingerprint text, n bigint)
)
INSERT INTO {schema}failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen)
SELECT fingerprint, task_type, error_type, error_category, error_message, now(), now()
FROM json_to_recordset(%(groups)s::json)
    AS given (fingerprint text, task_type text, error_type text, error_category text, error_message text)
ORDER BY fingerprint COLLATE "C"
ON CONFLICT DO NOTHING
