-- No attempt is spent. While the task's resource cools down it waits for the end of that.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(settlements)s::json)
        AS given (id bigint, epoch integer, delay float8, suspect boolean, noted boolean, error_message text)
    ORDER BY id
)
UPDATE outlast.task_queue AS task
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL,
    deferrals = deferrals + 1, deferred_at = coalesce(deferred_at, now()),
    last_error = CASE WHEN noted THEN error_message ELSE last_error END,
    next_run_after = greatest(
        now() + make_interval(secs => delay),
        (SELECT until FROM outlast.cooldowns WHERE cooldowns.resource = task.resource)
    ),
    updated_at = now(), suspect = given.suspect, alone = false
FROM given
WHERE given.id BETWEEN 1 AND 9223372036854775807
    AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
RETURNING task.id, task.task_type
