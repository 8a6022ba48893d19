SELECT EXISTS (
    SELECT 1 FROM dead_letter_queue CROSS JOIN task_queue ON task_queue.id = original_task_id
    WHERE dead_letter_queue.id = :id AND status = 'FAILED'
)
