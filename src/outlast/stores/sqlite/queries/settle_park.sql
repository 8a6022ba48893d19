-- No worker here knows its name; it waits for one that does.
UPDATE task_queue
SET status = 'PARKED', attempt = attempt - (started_at IS NOT NULL), started_at = NULL, alone = 0, updated_at = :now
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
