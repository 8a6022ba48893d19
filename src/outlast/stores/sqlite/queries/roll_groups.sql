-- The groups of failures take over what their deltas have counted.
UPDATE failure_groups
SET failures = failure_groups.failures + fresh.failures, dead = failure_groups.dead + fresh.dead,
    last_seen = max(failure_groups.last_seen, fresh.last_seen)
FROM (
    SELECT fingerprint AS cause,
        sum(CASE WHEN event NOT IN ('replayed', 'discarded') THEN n ELSE 0 END) AS failures,
        sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS dead,
        max(CASE WHEN event NOT IN ('replayed', 'discarded') THEN seen ELSE 0 END) AS last_seen
    FROM task_flow WHERE span = 0 AND at <= :bound AND fingerprint <> '' GROUP BY fingerprint
) AS fresh
WHERE failure_groups.fingerprint = fresh.cause
