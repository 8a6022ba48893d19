-- A delta of the books. Within ten seconds the same thing is the same row.
INSERT INTO task_flow (span, at, event, task_type, category, fingerprint, n, seen)
VALUES (0, ?1 / 10000 * 10000, ?2, ?3, ?4, ?5, ?6, ?1)
ON CONFLICT DO UPDATE SET n = n + excluded.n, seen = max(seen, excluded.seen)
