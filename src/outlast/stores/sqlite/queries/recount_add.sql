INSERT INTO task_flow (span, at, event, task_type, category, n, seen)
VALUES (-1, 0, :event, :task_type, :category, :n, :now)
ON CONFLICT DO UPDATE SET n = n + excluded.n
