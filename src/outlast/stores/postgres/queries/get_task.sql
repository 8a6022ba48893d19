SELECT id, task_type, queue, priority, parameters, status, resource, unique_key, attempt, retry_count, crash_count, suspect,
    lease_epoch, worker_id, deferrals, replays, last_error, next_run_after, expires_at, started_at, failed_at, finished_at,
    created_at, updated_at
FROM outlast.task_queue WHERE id = %(id)s
