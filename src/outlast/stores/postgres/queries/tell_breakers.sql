-- Told by the process whose they are and nobody else. Of a worker that has left meanwhile nothing is told.
INSERT INTO outlast.breakers AS known (resource, process, state, until, reason, is_worker, updated_at)
SELECT resource, %(process)s, state, now() + make_interval(secs => seconds), reason,
    %(leased)s, now()
FROM json_to_recordset(%(rows)s::json) AS given (resource text, state text, seconds float8, reason text)
WHERE NOT %(leased)s OR EXISTS (SELECT FROM outlast.workers WHERE id = %(process)s)
ORDER BY resource COLLATE "C"
ON CONFLICT (resource, process) DO UPDATE
SET before = CASE WHEN known.state = excluded.state THEN known.before ELSE known.state END, state = excluded.state,
    until = excluded.until, reason = excluded.reason, is_worker = excluded.is_worker, updated_at = excluded.updated_at
