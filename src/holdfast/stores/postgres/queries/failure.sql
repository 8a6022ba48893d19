SELECT known.fingerprint, known.task_type, error_type, error_category, error_message, first_seen,
    greatest(last_seen, recent.seen), (known.failures + recent.failures)::bigint, (known.dead + recent.dead)::bigint
FROM holdfast.failure_groups AS known
CROSS JOIN LATERAL (
    SELECT coalesce(sum(n) FILTER (WHERE event IN ('retried', 'deferred', 'lost', 'failed')), 0) AS failures,
        coalesce(sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n END), 0) AS dead,
        max(at) FILTER (WHERE event IN ('retried', 'deferred', 'lost', 'failed')) AS seen
    FROM holdfast.task_flow AS delta WHERE span = 0 AND fingerprint <> '' AND delta.fingerprint = known.fingerprint
) AS recent
WHERE known.fingerprint = %(fingerprint)s
