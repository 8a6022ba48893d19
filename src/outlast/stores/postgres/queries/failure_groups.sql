-- Counted by the index of what is left to do; then one row for each group.
WITH largest AS MATERIALIZED (
    SELECT coalesce(fingerprint, '') AS cause, count(*) AS size, min(source_id) AS first_id
    FROM outlast.job_targets
    WHERE run_id = %(run_id)s AND status IN ('failed', 'deferred') AND status = 'failed'
    GROUP BY cause ORDER BY size DESC, cause LIMIT %(limit)s
)
SELECT largest.cause, largest.size, run_id, source_id, status, attempts, target, error_type, error_message, category,
    origin, http_status, fingerprint, retry_at, finished_at
FROM largest JOIN outlast.job_targets AS target ON target.run_id = %(run_id)s AND target.source_id = largest.first_id
ORDER BY largest.size DESC, largest.cause
