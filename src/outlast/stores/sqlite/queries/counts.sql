-- By the books: what was ever, the deltas that are not over, and tasks that are not in the books yet. Two small indexes have the
-- rest.
SELECT 'running', count(*) FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING'
UNION ALL
SELECT 'parked', count(*) FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED'
UNION ALL
SELECT event, sum(n) FROM task_flow WHERE span IN (-1, 0) GROUP BY event
UNION ALL
SELECT 'enqueued', count(*) FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks)
