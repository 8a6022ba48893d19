UPDATE task_queue
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL), started_at = NULL, alone = 0, updated_at = :now,
    lease_epoch = lease_epoch + 1
WHERE status = 'RUNNING' AND worker_id = :worker_id AND id NOT IN (SELECT value FROM json_each(:held))
