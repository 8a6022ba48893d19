UPDATE task_queue
SET status = 'QUEUED', lease_epoch = lease_epoch + 1, suspect = 1, alone = 0, crash_count = :crash_count,
    last_error = :error, updated_at = :now
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
