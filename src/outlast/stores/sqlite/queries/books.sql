SELECT event, sum(n) FROM task_flow WHERE span IN (-1, 0) GROUP BY event
UNION ALL
SELECT 'enqueued', count(*) FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks)
