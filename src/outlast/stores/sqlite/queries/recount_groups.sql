-- The dead letters of each group, less what its deltas will add.
UPDATE failure_groups
SET dead = failure_groups.dead + lack.n, failures = max(failure_groups.failures, failure_groups.dead + lack.n)
FROM (
    SELECT wrong.fingerprint AS cause, coalesce(letters.n, 0) - coalesce(deltas.n, 0) - wrong.dead AS n
    FROM failure_groups AS wrong
    LEFT JOIN (
        SELECT fingerprint, count(*) AS n FROM dead_letter_queue GROUP BY fingerprint
    ) AS letters ON letters.fingerprint = wrong.fingerprint
    LEFT JOIN (
        SELECT fingerprint,
            sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS n
        FROM task_flow WHERE span = 0 AND fingerprint <> '' GROUP BY fingerprint
    ) AS deltas ON deltas.fingerprint = wrong.fingerprint
) AS lack
WHERE failure_groups.fingerprint = lack.cause AND lack.n <> 0
