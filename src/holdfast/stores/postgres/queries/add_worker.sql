INSERT INTO holdfast.workers (id, name, host, pid, queues, concurrency, state, started_at, heartbeat_at, expires_at)
VALUES (
    %(id)s, %(name)s, %(host)s, %(pid)s, %(queues)s::text[], %(concurrency)s, %(state)s, now(), now(),
    now() + make_interval(secs => %(lease)s)
)
