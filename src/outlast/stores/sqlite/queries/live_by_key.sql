SELECT id FROM task_queue
WHERE task_type = :task_type AND unique_key = :unique_key AND status IN ('QUEUED', 'RUNNING', 'PARKED')
