SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, traceback, failure
FROM outlast.task_attempts WHERE task_id = %(id)s ORDER BY id
