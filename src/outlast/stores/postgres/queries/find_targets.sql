SELECT run_id, source_id, status, attempts, target, error_type, error_message, category, origin, http_status, fingerprint,
    retry_at, finished_at
FROM outlast.job_targets
WHERE run_id = %(run_id)s AND source_id >= coalesce(%(after)s::text, '')
    AND source_id IS DISTINCT FROM %(after)s::text AND status = ANY (%(statuses)s::text[])
ORDER BY source_id LIMIT %(limit)s
