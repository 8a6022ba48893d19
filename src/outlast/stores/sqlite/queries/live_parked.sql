SELECT id FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED' LIMIT :most
