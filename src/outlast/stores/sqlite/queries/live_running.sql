SELECT id FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING' LIMIT :most
