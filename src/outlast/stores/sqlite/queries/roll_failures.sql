-- How often each group failed, step by step.
INSERT INTO failure_flow (fingerprint, span, at, event, n)
SELECT fingerprint, 10, at, event, sum(n)
FROM task_flow
WHERE span = 0 AND at <= :bound AND fingerprint <> '' AND event NOT IN ('replayed', 'discarded')
GROUP BY fingerprint, at, event
ON CONFLICT DO UPDATE SET n = n + excluded.n
