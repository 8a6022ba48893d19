SELECT EXISTS (
    SELECT 1 FROM task_queue INDEXED BY task_queue_held
    WHERE status = 'RUNNING' AND (worker_id IS NULL OR worker_id NOT IN (SELECT id FROM workers))
)
