SELECT run_id, source_id, status, attempts, target, error_type, error_message, category, origin, http_status, fingerprint,
    retry_at, finished_at
FROM job_targets
WHERE run_id = :run_id AND source_id >= coalesce(:after, '')
    AND source_id IS NOT :after AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY source_id LIMIT :limit
