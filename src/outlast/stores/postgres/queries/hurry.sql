WITH chosen AS MATERIALIZED (
    SELECT id FROM outlast.task_queue
    WHERE id = ANY (%(ids)s::bigint[]) AND status = 'QUEUED'
    ORDER BY id
    FOR UPDATE
)
UPDATE outlast.task_queue AS task
SET next_run_after = least(task.next_run_after, now()), updated_at = now()
FROM chosen WHERE task.id = chosen.id
RETURNING task.id
