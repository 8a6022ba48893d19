-- The epoch rises, so that a worker that only seemed dead is refused.
UPDATE task_queue SET status = 'QUEUED', lease_epoch = lease_epoch + 1, alone = 0, updated_at = :now
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
