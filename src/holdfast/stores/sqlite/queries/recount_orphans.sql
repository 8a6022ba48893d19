-- A task that failed and whose dead letter somebody has deleted by hand: the books have no other word for it.
UPDATE task_queue SET status = 'DISCARDED', finished_at = :now, updated_at = :now
WHERE status = 'FAILED' AND id NOT IN (SELECT original_task_id FROM dead_letter_queue)
