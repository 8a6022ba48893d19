-- What is there, and what the books say of it.
SELECT 'task', status, '', '', count(*) FROM task_queue GROUP BY status
UNION ALL
SELECT 'letter', '', task_type, error_category, count(*) FROM dead_letter_queue GROUP BY task_type, error_category
UNION ALL
SELECT 'booked', event, task_type, category, sum(n) FROM task_flow WHERE span IN (-1, 0) GROUP BY event, task_type, category
