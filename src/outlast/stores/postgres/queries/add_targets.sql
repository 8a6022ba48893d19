-- The last word counts, but a success stays one. A row that was added has no xmax, one that was written over has. In the
-- order of their keys: two writers would wait for each other in turn and not in a circle.
WITH written AS (
    INSERT INTO outlast.job_targets AS known (
        run_id, source_id, status, attempts, target, error_type, error_message, category, origin, http_status, fingerprint,
        retry_at
    )
    SELECT %(run_id)s, source_id, status, attempts, target, error_type, error_message, category, origin, http_status,
        fingerprint, now() + make_interval(secs => retry_in)
    FROM json_to_recordset(%(targets)s::json) AS given (
        source_id text, status text, attempts integer, target text, error_type text, error_message text, category text,
        origin text, http_status integer, fingerprint text, retry_in double precision
    )
    ORDER BY source_id COLLATE "C"
    ON CONFLICT (run_id, source_id) DO UPDATE
    SET status = excluded.status, attempts = excluded.attempts, target = excluded.target, error_type = excluded.error_type,
        error_message = excluded.error_message, category = excluded.category, origin = excluded.origin,
        http_status = excluded.http_status, fingerprint = excluded.fingerprint, retry_at = excluded.retry_at,
        finished_at = excluded.finished_at
    WHERE known.status <> 'success' OR excluded.status = 'success'
    RETURNING known.xmax = 0 AS is_new
)
SELECT count(*) FILTER (WHERE is_new) FROM written
