-- What runs is left to run: nobody can stop a thread.
WITH chosen AS MATERIALIZED (
    SELECT id FROM outlast.task_queue
    WHERE id = ANY (%(ids)s::bigint[]) AND status IN ('QUEUED', 'PARKED')
    ORDER BY id
    FOR UPDATE
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = 'CANCELLED', finished_at = now(), updated_at = now()
    FROM chosen WHERE task.id = chosen.id
    RETURNING task.id
),
told AS (
    INSERT INTO outlast.task_flow (event, n) SELECT 'cancelled', count(*) FROM changed HAVING count(*) > 0
)
SELECT id FROM changed
