SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, traceback, failure
FROM task_attempts INDEXED BY task_attempts_groups WHERE fingerprint = :fingerprint ORDER BY id DESC LIMIT :limit
