-- A task that failed and whose dead letter somebody has deleted by hand: the books have no other word for it.
UPDATE holdfast.task_queue AS task
SET status = 'DISCARDED', finished_at = now(), updated_at = now()
WHERE status = 'FAILED'
    AND NOT EXISTS (SELECT FROM holdfast.dead_letter_queue AS letter WHERE letter.original_task_id = task.id)
