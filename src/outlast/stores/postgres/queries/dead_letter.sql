SELECT id, original_task_id, task_type, queue, priority, parameters, resource, unique_key, error_type, error_message,
    error_category, reason, fingerprint, traceback, failure, retry_count, crash_count, replays, worker_id, created_at,
    moved_to_dlq_at
FROM outlast.dead_letter_queue WHERE id = %(id)s
