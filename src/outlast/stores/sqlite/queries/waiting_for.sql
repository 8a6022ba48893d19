SELECT count(*) FROM (
    SELECT 1 FROM task_queue INDEXED BY task_queue_resource WHERE status = 'QUEUED' AND resource = :resource LIMIT :most
)
