-- Out of our hands, and not due before the message for it can be taken for lost.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::bigint[], %(epochs)s::integer[]) AS given (id, epoch) ORDER BY id
)
UPDATE outlast.task_queue AS task
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL, alone = false,
    next_run_after = now() + make_interval(secs => %(seconds)s), updated_at = now()
FROM given
WHERE given.id BETWEEN 1 AND 9223372036854775807
    AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
