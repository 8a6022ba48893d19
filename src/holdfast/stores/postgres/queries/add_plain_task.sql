-- One task without a key or a resource, which is what most are: nothing to look up, one statement with its NOTIFY.
WITH added AS (
    INSERT INTO holdfast.task_queue (task_type, queue, priority, parameters, next_run_after, expires_at)
    VALUES (
        %(task_type)s, %(queue)s, %(priority)s::smallint, %(parameters)s,
        coalesce(to_timestamp(%(run_at)s::float8), now() + make_interval(secs => %(delay)s::float8)),
        now() + make_interval(secs => %(expires)s::float8)
    )
    RETURNING id
)
SELECT id, pg_notify('holdfast_' || 'holdfast.task_queue'::regclass::oid, '') FROM added
