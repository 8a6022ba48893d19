UPDATE task_queue
SET status = 'FAILED', lease_epoch = lease_epoch + 1, suspect = 0, alone = 0, crash_count = :crash_count,
    last_error = :error, failed_at = :now, updated_at = :now
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
