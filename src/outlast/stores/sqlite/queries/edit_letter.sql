-- Only if nobody was faster, and its task has ended with it.
UPDATE dead_letter_queue SET parameters = :after
WHERE id = :id AND parameters = :before
    AND EXISTS (SELECT 1 FROM task_queue WHERE task_queue.id = original_task_id AND status = 'FAILED')
RETURNING original_task_id
