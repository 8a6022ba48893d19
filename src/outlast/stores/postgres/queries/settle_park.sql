-- No worker here knows its name; it waits for one that does.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(settlements)s::json) AS given (id bigint, epoch integer) ORDER BY id
)
UPDATE outlast.task_queue AS task
SET status = 'PARKED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL, alone = false,
    updated_at = now()
FROM given
WHERE given.id BETWEEN 1 AND 9223372036854775807
    AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
RETURNING task.id, task.task_type
