SELECT id, task_type, queue, priority, parameters, status, resource, unique_key, attempt, retry_count, crash_count, suspect,
    lease_epoch, worker_id, deferrals, replays, last_error, next_run_after, expires_at, started_at, failed_at, finished_at,
    created_at, updated_at
FROM outlast.task_queue
WHERE (%(status)s::text IS NULL OR status = %(status)s::text)
    AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
    AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
    AND (%(before)s::bigint IS NULL OR id < %(before)s::bigint)
ORDER BY id DESC LIMIT %(limit)s
