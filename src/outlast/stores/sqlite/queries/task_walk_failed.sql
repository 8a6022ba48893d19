-- Each has its dead letter, whose index is in the order of the tasks.
SELECT task_queue.id,
    task_queue.status = 'FAILED'
    AND (:queue IS NULL OR task_queue.queue = :queue)
    AND (:task_type IS NULL OR task_queue.task_type = :task_type)
FROM dead_letter_queue AS letter CROSS JOIN task_queue ON task_queue.id = letter.original_task_id
WHERE letter.original_task_id < :before
ORDER BY letter.original_task_id DESC
