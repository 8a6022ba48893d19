SELECT fingerprint, task_type, error_type, error_category, error_message, first_seen,
    max(failure_groups.last_seen, coalesce(fresh.last_seen, 0)), failure_groups.failures + coalesce(fresh.failures, 0),
    failure_groups.dead + coalesce(fresh.dead, 0), note, acknowledged_at, acknowledged_by, snoozed_until
FROM failure_groups LEFT JOIN (
    SELECT sum(CASE WHEN event NOT IN ('replayed', 'discarded') THEN n ELSE 0 END) AS failures,
        sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS dead,
        max(CASE WHEN event NOT IN ('replayed', 'discarded') THEN seen ELSE 0 END) AS last_seen
    FROM task_flow WHERE span = 0 AND fingerprint = :fingerprint
) AS fresh
WHERE fingerprint = :fingerprint
