-- The same task once more, with its history and number; its attempts begin anew.
WITH letter AS MATERIALIZED (
    SELECT original_task_id, task_type, error_category, fingerprint FROM outlast.dead_letter_queue
    WHERE id = %(id)s
    FOR UPDATE
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = 'QUEUED', retry_count = 0, crash_count = 0, suspect = false, alone = false, replays = replays + 1,
        next_run_after = now(), deferred_at = NULL, expires_at = NULL, failed_at = NULL, updated_at = now(),
        replay_id = NULL, canary = false
    FROM letter
    WHERE task.id = letter.original_task_id AND task.status = 'FAILED'
    RETURNING task.id
),
removed AS (
    DELETE FROM outlast.dead_letter_queue AS letter USING changed WHERE letter.original_task_id = changed.id
),
told AS (
    INSERT INTO outlast.task_flow (event, task_type, category, fingerprint, n)
    SELECT 'replayed', task_type, error_category, fingerprint, 1
    FROM letter JOIN changed ON changed.id = letter.original_task_id
)
SELECT id, pg_notify('outlast_' || 'outlast.task_queue'::regclass::oid, '') FROM changed
