-- What the deltas that are not over have counted of each group.
SELECT fingerprint AS cause,
    sum(CASE WHEN event NOT IN ('replayed', 'discarded') THEN n ELSE 0 END) AS failures,
    sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS dead,
    max(CASE WHEN event NOT IN ('replayed', 'discarded') THEN seen ELSE 0 END) AS last_seen
FROM task_flow WHERE span = 0 AND fingerprint <> '' GROUP BY fingerprint
