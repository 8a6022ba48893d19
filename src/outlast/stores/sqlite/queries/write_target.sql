-- The last word counts, but a success stays one.
INSERT INTO job_targets AS known (
    run_id, source_id, status, attempts, target, error_type, error_message, category, origin, http_status, fingerprint,
    retry_at, finished_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, source_id) DO UPDATE
SET status = excluded.status, attempts = excluded.attempts, target = excluded.target, error_type = excluded.error_type,
    error_message = excluded.error_message, category = excluded.category, origin = excluded.origin,
    http_status = excluded.http_status, fingerprint = excluded.fingerprint, retry_at = excluded.retry_at,
    finished_at = excluded.finished_at
WHERE known.status <> 'success' OR excluded.status = 'success'
