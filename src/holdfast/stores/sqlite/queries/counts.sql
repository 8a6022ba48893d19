SELECT status, count(*) FROM task_queue GROUP BY status
UNION ALL SELECT 'dead_letters', count(*) FROM dead_letter_queue
