-- Of one moment, row by row.
SELECT status, count(*) FROM outlast.task_queue GROUP BY status
UNION ALL
SELECT 'dead_letters', count(*) FROM outlast.dead_letter_queue
