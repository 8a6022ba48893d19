-- None on tables of another version: whoever lost its lease by a migration gets no other.
INSERT INTO outlast.workers
    (id, name, host, pid, queues, concurrency, state, started_at, heartbeat_at, expires_at, schema_version)
SELECT
    %(id)s, %(name)s, %(host)s, %(pid)s, %(queues)s::text[], %(concurrency)s, %(state)s, now(), now(),
    now() + make_interval(secs => %(lease)s), %(schema_version)s
WHERE %(schema_version)s = (SELECT max(version) FROM outlast.schema_version)
