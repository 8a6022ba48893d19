-- What is there and what the books say of it, by one statement: a change and its delta are both seen or neither is, so nobody
-- who works meanwhile has to wait. Dead letters as they are booked when they go: those whose task has failed.
SELECT 'task', status, '', '', count(*) FROM outlast.task_queue GROUP BY status
UNION ALL
SELECT 'letter', '', letter.task_type, letter.error_category, count(*)
FROM outlast.dead_letter_queue AS letter
JOIN outlast.task_queue AS task ON task.id = letter.original_task_id AND task.status = 'FAILED'
GROUP BY letter.task_type, letter.error_category
UNION ALL
SELECT 'booked', event, task_type, category, sum(n)::bigint FROM outlast.task_flow WHERE span IN (-1, 0)
GROUP BY event, task_type, category
