CROSS JOIN LATERAL (
    SELECT coalesce(sum(n) FILTER (WHERE event IN (--failures--)), 0) AS failures,
        coalesce(sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n END), 0) AS dead,
        max(at) FILTER (WHERE event IN (--failures--)) AS seen
    FROM outlast.task_flow AS delta
    WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint
) AS recent
