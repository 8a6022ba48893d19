-- Told by the process whose they are and nobody else.
INSERT INTO holdfast.breakers AS known (resource, process, state, until, reason, is_worker, updated_at)
SELECT resource, %(process)s, state, now() + make_interval(secs => seconds), reason,
    EXISTS (SELECT FROM holdfast.workers WHERE id = %(process)s), now()
FROM json_to_recordset(%(rows)s::json) AS given (resource text, state text, seconds float8, reason text)
ORDER BY resource COLLATE "C"
ON CONFLICT (resource, process) DO UPDATE
SET before = CASE WHEN known.state = excluded.state THEN known.before ELSE known.state END, state = excluded.state,
    until = excluded.until, reason = excluded.reason, is_worker = excluded.is_worker, updated_at = excluded.updated_at
