SELECT id, task_type, queue, priority, status, resource, retry_count, worker_id, last_error, next_run_after, finished_at,
    created_at
FROM task_queue WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id DESC
