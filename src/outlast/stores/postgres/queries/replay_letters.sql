-- As one is replayed, for some at once. What another live task has the key of stays, and so does the second of two with one
-- key. The tasks are changed in the order of their keys, as they are added: then two wait for each other in turn and not in a
-- circle. `BETWEEN 1 AND …` holds for every number: it makes the planner look numbers up, whatever it knows of the tables.
WITH letters AS MATERIALIZED (
    SELECT id, original_task_id, task_type, unique_key, error_category, fingerprint FROM outlast.dead_letter_queue
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR UPDATE
),
judged AS MATERIALIZED (
    SELECT letters.*, unique_key IS NOT NULL AND (
        row_number() OVER (PARTITION BY task_type, unique_key ORDER BY id) > 1
        OR EXISTS (
            SELECT FROM outlast.task_queue AS live
            WHERE live.task_type = letters.task_type AND live.unique_key = letters.unique_key
                AND live.unique_key IS NOT NULL AND live.status IN ('QUEUED', 'RUNNING', 'PARKED')
        )
    ) AS taken
    FROM letters
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = 'QUEUED', retry_count = 0, crash_count = 0, suspect = false, alone = false, replays = replays + 1,
        next_run_after = now(), deferred_at = NULL, expires_at = NULL, failed_at = NULL, updated_at = now(),
        replay_id = %(replay_id)s, canary = %(canary)s
    FROM (SELECT * FROM judged WHERE NOT taken ORDER BY task_type, unique_key, id) AS letter
    WHERE letter.original_task_id BETWEEN 1 AND 9223372036854775807
        AND task.id = letter.original_task_id AND task.status || '' = 'FAILED'
    RETURNING letter.id, letter.task_type, letter.error_category, letter.fingerprint
),
removed AS (
    DELETE FROM outlast.dead_letter_queue AS letter USING changed
    WHERE changed.id BETWEEN 1 AND 9223372036854775807 AND letter.id = changed.id
),
told AS (
    INSERT INTO outlast.task_flow (event, task_type, category, fingerprint, n)
    SELECT 'replayed', task_type, error_category, fingerprint, count(*) FROM changed GROUP BY 2, 3, 4
)
SELECT (SELECT count(*) FROM changed), ARRAY(SELECT id FROM judged WHERE taken ORDER BY id),
    (SELECT pg_notify('outlast_' || 'outlast.task_queue'::regclass::oid, '') FROM changed LIMIT 1)
