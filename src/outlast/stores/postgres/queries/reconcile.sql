-- The epoch rises: a settlement of the lost claim that arrives late is refused.
WITH lost AS MATERIALIZED (
    SELECT id FROM outlast.task_queue
    WHERE status = 'RUNNING' AND worker_id = %(worker_id)s AND id <> ALL (%(held)s::bigint[])
    ORDER BY id
    FOR UPDATE
)
UPDATE outlast.task_queue AS task
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL, alone = false,
    updated_at = now(), lease_epoch = lease_epoch + 1
FROM lost
WHERE task.id = lost.id
