-- From one span into the next; what both are is told by event and category alone.
INSERT INTO task_flow (span, at, event, category, n, seen)
SELECT :into, at / (:into * 1000) * (:into * 1000), event, category, sum(n), max(seen)
FROM task_flow WHERE span = :span AND at <= :bound GROUP BY 2, event, category
ON CONFLICT DO UPDATE SET n = n + excluded.n, seen = max(seen, excluded.seen)
