INSERT INTO task_flow (span, at, event, n, seen)
SELECT 0, created_at / 10000 * 10000, 'enqueued', count(*), max(created_at)
FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks) AND id <= :up_to GROUP BY 2
ON CONFLICT DO UPDATE SET n = n + excluded.n, seen = max(seen, excluded.seen)
