-- The usual case, by itself: how many were not known is how many rows it adds.
INSERT INTO job_targets (
    run_id, source_id, status, attempts, target, error_type, error_message, category, origin, http_status, fingerprint,
    retry_at, finished_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, source_id) DO NOTHING
