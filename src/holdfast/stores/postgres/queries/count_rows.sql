-- Of one moment, row by row.
SELECT status, count(*) FROM holdfast.task_queue GROUP BY status
UNION ALL
SELECT 'dead_letters', count(*) FROM holdfast.dead_letter_queue
