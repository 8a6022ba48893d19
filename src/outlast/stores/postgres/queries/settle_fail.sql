-- The end of a task, the last line of its history and its dead letter: all of it or nothing.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(settlements)s::json) AS given (
        id bigint, epoch integer, reason text, noted boolean, error_type text, error_message text, error_category text,
        fingerprint text, traceback text, failure text
    )
    ORDER BY id
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = 'FAILED', retry_count = retry_count + noted::integer, last_error = error_message, failed_at = now(),
        updated_at = now(), suspect = false, alone = false
    FROM given
    WHERE given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
    RETURNING task.*
),
history AS (
    INSERT INTO outlast.task_attempts
        (task_id, attempt, outcome, worker_id, started_at, finished_at,
         error_type, error_message, error_category, fingerprint, traceback, failure)
    SELECT id, attempt, 'fail', worker_id, started_at, now(),
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
    ORDER BY id
)
SELECT id, task_type FROM changed
