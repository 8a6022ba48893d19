-- Counted by the index alone; then one row for each group.
WITH largest AS MATERIALIZED (
    SELECT coalesce(fingerprint, '') AS cause, count(*) AS size, min(source_id) AS first_id
    FROM job_targets INDEXED BY job_targets_left
    WHERE run_id = :run_id AND status IN ('failed', 'deferred') AND status = 'failed'
    GROUP BY cause ORDER BY size DESC, cause LIMIT :limit
)
SELECT largest.cause, largest.size, run_id, source_id, status, attempts, target, error_type, error_message, category,
    origin, http_status, fingerprint, retry_at, finished_at
FROM largest CROSS JOIN job_targets ON run_id = :run_id AND source_id = largest.first_id
ORDER BY largest.size DESC, largest.cause
