SELECT flow.fingerprint, at / :step * :step, event, error_category, sum(n)
FROM (
    SELECT fingerprint, at, event, n FROM json_each(:fingerprints) AS wanted CROSS JOIN failure_flow
    WHERE failure_flow.fingerprint = wanted.value AND span IN (10, 600) AND at >= :begin
    UNION ALL
    SELECT fingerprint, at, event, n FROM task_flow
    WHERE span = 0 AND at >= :begin AND event NOT IN ('replayed', 'discarded')
        AND fingerprint IN (SELECT value FROM json_each(:fingerprints))
) AS flow
CROSS JOIN failure_groups ON failure_groups.fingerprint = flow.fingerprint
GROUP BY flow.fingerprint, 2, event, error_category
ORDER BY 2
