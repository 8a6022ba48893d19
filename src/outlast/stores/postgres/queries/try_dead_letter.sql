-- No number is drawn: it would seem to be that of a new one.
INSERT INTO outlast.dead_letter_queue
    (id, original_task_id, task_type, queue, priority, parameters, error_type, error_message, error_category, reason,
     fingerprint, traceback, failure, retry_count, crash_count, replays, created_at, moved_to_dlq_at)
VALUES (-pg_backend_pid(), -pg_backend_pid(), '', '', 0, '', '', '', '', '', '', '', '', 0, 0, 0, now(), now())
