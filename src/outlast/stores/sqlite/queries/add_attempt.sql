INSERT INTO task_attempts
    (task_id, attempt, outcome, worker_id, started_at, finished_at,
     error_type, error_message, error_category, fingerprint, delay, traceback, failure)
VALUES
    (:task_id, :attempt, :outcome, :worker_id, :started_at, :now,
     :error_type, :error_message, :error_category, :fingerprint, :delay, :traceback, :failure)
