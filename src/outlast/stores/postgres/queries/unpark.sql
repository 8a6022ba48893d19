WITH chosen AS MATERIALIZED (
    SELECT id FROM outlast.task_queue
    WHERE status = 'PARKED' AND task_type = ANY (%(task_types)s::text[])
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
UPDATE outlast.task_queue AS task SET status = 'QUEUED', updated_at = now() FROM chosen WHERE task.id = chosen.id
