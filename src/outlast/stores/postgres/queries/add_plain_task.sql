-- One task without a key or a resource, which is what most are: nothing to look up, one statement with its NOTIFY.
WITH told AS (
    INSERT INTO outlast.task_flow (event, n) VALUES ('enqueued', 1)
)
INSERT INTO outlast.task_queue (task_type, queue, priority, parameters, next_run_after, expires_at, booked)
VALUES (
    %s, %s, %s::smallint, %s,
    coalesce(to_timestamp(%s::float8), now() + make_interval(secs => %s::float8)),
    now() + make_interval(secs => %s::float8), true
)
RETURNING id, pg_notify('outlast_' || 'outlast.task_queue'::regclass::oid, '')
