INSERT INTO dead_letter_queue
    (original_task_id, task_type, queue, priority, parameters, error_type, error_message, error_category, reason,
     fingerprint, traceback, failure, retry_count, crash_count, replays, created_at, moved_to_dlq_at)
VALUES (-1, '', '', 0, '', '', '', '', '', '', '', '', 0, 0, 0, :now, :now)
