WITH letters AS (
    DELETE FROM holdfast.dead_letter_queue WHERE id = ANY (%(ids)s::bigint[]) RETURNING original_task_id
),
changed AS (
    UPDATE holdfast.task_queue AS task
    SET status = 'DISCARDED', finished_at = now(), updated_at = now()
    FROM letters
    WHERE task.id = letters.original_task_id AND task.status = 'FAILED'
)
SELECT count(*) FROM letters
