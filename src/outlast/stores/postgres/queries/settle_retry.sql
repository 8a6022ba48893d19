WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(settlements)s::json) AS given (
        id bigint, epoch integer, delay float8, suspect boolean, noted boolean, error_type text, error_message text,
        error_category text, fingerprint text, traceback text, failure text
    )
    ORDER BY id
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = 'QUEUED', retry_count = retry_count + 1, last_error = CASE WHEN noted THEN error_message END,
        next_run_after = now() + make_interval(secs => delay), updated_at = now(), suspect = given.suspect, alone = false,
        deferred_at = NULL
    FROM given
    WHERE given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
    RETURNING task.id, task.task_type, task.attempt, task.worker_id, task.started_at
),
history AS (
    INSERT INTO outlast.task_attempts
        (task_id, attempt, outcome, worker_id, started_at, finished_at,
         error_type, error_message, error_category, fingerprint, delay, traceback, failure)
    SELECT id, attempt, 'retry', worker_id, started_at, now(),
        error_type, error_message, error_category, fingerprint, delay, traceback, failure
    FROM changed JOIN given USING (id)
    WHERE noted
    ORDER BY id
)
SELECT id, task_type FROM changed
