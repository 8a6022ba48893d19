-- The process in which a suspect ran has died. After a wait it runs again, alone; with a reason, that was the last time,
-- and all that ends a task is here: all of it or nothing.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(settlements)s::json) AS given (
        id bigint, epoch integer, delay float8, reason text, error_type text, error_message text, error_category text,
        fingerprint text, traceback text, failure text
    )
    ORDER BY id
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = CASE WHEN reason IS NULL THEN 'QUEUED' ELSE 'FAILED' END, suspect = reason IS NULL, alone = false,
        crash_count = crash_count + 1, last_error = error_message, updated_at = now(),
        next_run_after = CASE WHEN reason IS NULL THEN now() + make_interval(secs => delay) ELSE task.next_run_after END,
        failed_at = CASE WHEN reason IS NULL THEN task.failed_at ELSE now() END
    FROM given
    WHERE given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
    RETURNING task.*
),
history AS (
    INSERT INTO outlast.task_attempts
        (task_id, attempt, outcome, worker_id, started_at, finished_at,
         error_type, error_message, error_category, fingerprint, traceback, failure)
    SELECT id, attempt, 'lost', worker_id, started_at, now(),
        error_type, error_message, error_category, fingerprint, traceback, failure
    FROM changed JOIN given USING (id)
    ORDER BY id
),
letters AS (
    INSERT INTO outlast.dead_letter_queue
        (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
         error_type, error_message, error_category, reason, fingerprint, traceback, failure,
         retry_count, crash_count, replays, replay_id, worker_id, created_at, moved_to_dlq_at)
    SELECT id, task_type, queue, priority, parameters, resource, unique_key,
        error_type, error_message, error_category, reason, fingerprint, traceback, failure,
        retry_count, crash_count, replays, replay_id, worker_id, created_at, now()
    FROM changed JOIN given USING (id)
    WHERE reason IS NOT NULL
    ORDER BY id
)
SELECT id, task_type FROM changed
