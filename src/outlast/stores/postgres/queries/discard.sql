WITH letters AS (
    DELETE FROM outlast.dead_letter_queue WHERE id = ANY (%(ids)s::bigint[])
    RETURNING original_task_id, task_type, error_category, fingerprint
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = 'DISCARDED', finished_at = now(), updated_at = now()
    FROM letters
    WHERE task.id = letters.original_task_id AND task.status = 'FAILED'
    RETURNING letters.task_type, letters.error_category, letters.fingerprint
),
told AS (
    INSERT INTO outlast.task_flow (event, task_type, category, fingerprint, n)
    SELECT 'discarded', task_type, error_category, fingerprint, count(*) FROM changed GROUP BY 2, 3, 4
)
SELECT count(*) FROM letters
