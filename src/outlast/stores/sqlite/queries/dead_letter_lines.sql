SELECT id, original_task_id, task_type, queue, error_type, error_message, error_category, reason, fingerprint, retry_count,
    replays, moved_to_dlq_at
FROM dead_letter_queue WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id DESC
