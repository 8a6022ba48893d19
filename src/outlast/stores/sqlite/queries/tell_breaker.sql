-- Of a worker that has left meanwhile nothing is told.
INSERT INTO breakers AS known (resource, process, state, until, reason, is_worker, updated_at)
SELECT :resource, :process, :state, :until, :reason, :leased, :now
WHERE NOT :leased OR EXISTS (SELECT 1 FROM workers WHERE id = :process)
ON CONFLICT (resource, process) DO UPDATE
SET before = CASE WHEN known.state = excluded.state THEN known.before ELSE known.state END, state = excluded.state,
    until = excluded.until, reason = excluded.reason, is_worker = excluded.is_worker, updated_at = excluded.updated_at
