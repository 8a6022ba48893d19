UPDATE task_queue
SET status = 'FAILED', retry_count = retry_count + :spent, last_error = :error, failed_at = :now, updated_at = :now,
    suspect = 0, alone = 0
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
RETURNING attempt, worker_id, started_at, task_type
