-- Back as it was before the claim: a start that came to nothing is not counted. With a delay it is not due before.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(settlements)s::json) AS given (id bigint, epoch integer, delay float8) ORDER BY id
)
UPDATE outlast.task_queue AS task
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL, alone = false,
    updated_at = now(),
    next_run_after = CASE WHEN delay > 0 THEN now() + make_interval(secs => delay) ELSE next_run_after END
FROM given
WHERE given.id BETWEEN 1 AND 9223372036854775807
    AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
RETURNING task.id, task.task_type
