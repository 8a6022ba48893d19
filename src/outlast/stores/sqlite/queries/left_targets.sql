-- What is left to do has an index of its own, which the first condition on the status lets it use.
SELECT run_id, source_id, status, attempts, target, error_type, error_message, category, origin, http_status, fingerprint,
    retry_at, finished_at
FROM job_targets INDEXED BY job_targets_left
WHERE run_id = :run_id AND source_id >= coalesce(:after, '') AND source_id IS NOT :after
    AND status IN ('failed', 'deferred') AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY source_id LIMIT :limit
