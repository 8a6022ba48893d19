UPDATE task_queue
SET status = 'QUEUED', retry_count = retry_count + 1, last_error = :error, next_run_after = :now + :delay,
    updated_at = :now, suspect = :suspect, alone = 0, deferred_at = NULL
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
RETURNING attempt, worker_id, started_at, task_type
