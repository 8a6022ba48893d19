UPDATE task_queue
SET attempt = attempt + 1, started_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND lease_epoch = :epoch AND status = 'RUNNING' AND started_at IS NULL
