UPDATE task_queue SET status = 'DISCARDED', finished_at = :now, updated_at = :now
WHERE id IN (SELECT original_task_id FROM dead_letter_queue WHERE id IN (SELECT value FROM json_each(:ids)))
    AND status = 'FAILED'
