-- Deltas that are over, added to what was ever.
INSERT INTO task_flow (span, at, event, task_type, category, n, seen)
SELECT -1, 0, event, task_type, category, sum(n), max(seen)
FROM task_flow WHERE span = 0 AND at <= :bound GROUP BY event, task_type, category
ON CONFLICT DO UPDATE SET n = n + excluded.n, seen = max(seen, excluded.seen)
