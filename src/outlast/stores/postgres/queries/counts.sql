-- By the books; what runs and what is parked have small indexes.
SELECT event, sum(n)::bigint FROM outlast.task_flow WHERE span IN (-1, 0) GROUP BY event
UNION ALL
SELECT 'running', count(*) FROM outlast.task_queue WHERE status = 'RUNNING'
UNION ALL
SELECT 'parked', count(*) FROM outlast.task_queue WHERE status = 'PARKED'
