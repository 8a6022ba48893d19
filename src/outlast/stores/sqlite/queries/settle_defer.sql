-- No attempt is spent. While the task's resource cools down it waits for the end of that.
UPDATE task_queue
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL), started_at = NULL, deferrals = deferrals + 1, deferred_at = coalesce(deferred_at, :now),
    last_error = coalesce(:error, last_error),
    next_run_after = max(:now + :delay, coalesce((SELECT until FROM cooldowns WHERE resource = task_queue.resource), 0)),
    updated_at = :now, suspect = :suspect, alone = 0
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
RETURNING task_type
