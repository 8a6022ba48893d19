-- part: run_columns
id, job, entity, env, parent, state, total, exit_code, summary, started_at, ended_at

-- part: target_columns
run_id, source_id, status, attempts, target, error_type, error_message, category, origin, http_status, fingerprint,
    retry_at, finished_at

-- name: add_run
-- A taken id adds nothing and returns no row; the caller reports it.
INSERT INTO {schema}job_runs (id, job, entity, env, parent)
VALUES (%(id)s, %(job)s, %(entity)s, %(env)s, %(parent)s)
ON CONFLICT (id) DO NOTHING
RETURNING {run_columns}

-- name: get_run
-- Used by the page of one run.
SELECT {run_columns}
FROM {schema}job_runs WHERE id = %(id)s

-- name: list_runs
-- One statement for all filters; it is planned for each call. The id breaks ties between runs that started at the same
-- time.
SELECT {run_columns}
FROM {schema}job_runs
WHERE (%(job)s::text IS NULL OR job = %(job)s::text)
    AND (%(before)s::text IS NULL
        OR (started_at, id) < (SELECT started_at, id FROM {schema}job_runs WHERE id = %(before)s::text))
ORDER BY started_at DESC, id DESC LIMIT %(limit)s

-- name: reopen_run
-- Clears the result of the first run; the finished targets stay.
UPDATE {schema}job_runs SET state = 'running', total = 0, exit_code = NULL, summary = NULL, ended_at = NULL
WHERE id = %(id)s
RETURNING {run_columns}

-- name: end_run
-- The summary is JSON, and only the number of targets also has a column.
UPDATE {schema}job_runs
SET state = %(state)s, total = %(total)s, exit_code = %(exit_code)s, summary = %(summary)s, ended_at = now()
WHERE id = %(id)s

-- name: add_targets
-- The last result counts, but a success stays. An inserted row has no xmax. In order of the keys, which prevents
-- deadlocks.
WITH written AS (
    INSERT INTO {schema}job_targets AS known (
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

-- name: done_targets
-- Looks the given ids up by the primary key, instead of reading all targets of the run.
SELECT source_id FROM {schema}job_targets
WHERE run_id = %(run_id)s AND source_id = ANY (%(ids)s::text[]) AND status IN ('success', 'skipped')

-- name: list_targets
-- By key, from where the last page ended: no page is skipped if targets are added meanwhile.
SELECT {target_columns}
FROM {schema}job_targets
WHERE run_id = %(run_id)s AND source_id >= coalesce(%(after)s::text, '')
    AND source_id IS DISTINCT FROM %(after)s::text AND status = ANY (%(statuses)s::text[])
ORDER BY source_id LIMIT %(limit)s

-- name: list_unfinished_targets
-- Unfinished targets have their own index; the first condition on the status makes it usable.
SELECT {target_columns}
FROM {schema}job_targets
WHERE run_id = %(run_id)s AND source_id >= coalesce(%(after)s::text, '') AND source_id IS DISTINCT FROM %(after)s::text
    AND status IN ('failed', 'deferred') AND status = ANY (%(statuses)s::text[])
ORDER BY source_id LIMIT %(limit)s

-- name: count_targets
-- Used by the summary of a run; one range of the primary key.
SELECT status, count(*) FROM {schema}job_targets WHERE run_id = %(run_id)s GROUP BY status

-- name: group_failed_targets
-- Counted by the index of unfinished targets, then one row for each group.
WITH largest AS MATERIALIZED (
    SELECT coalesce(fingerprint, '') AS cause, count(*) AS size, min(source_id) AS first_id
    FROM {schema}job_targets
    WHERE run_id = %(run_id)s AND status IN ('failed', 'deferred') AND status = 'failed'
    GROUP BY cause ORDER BY size DESC, cause LIMIT %(limit)s
)
SELECT largest.cause, largest.size, {target_columns}
FROM largest JOIN {schema}job_targets AS target ON target.run_id = %(run_id)s AND target.source_id = largest.first_id
ORDER BY largest.size DESC, largest.cause

-- name: compare_runs
-- From the unfinished targets of one run, the smaller part, to their rows in the other run.
SELECT
    count(*) FILTER (WHERE other = 'success' AND NOT is_after) AS fixed,
    count(*) FILTER (WHERE other = 'success' AND is_after) AS broken,
    count(*) FILTER (WHERE other IN ('failed', 'deferred') AND NOT is_after) AS still
FROM (
    SELECT false AS is_after, later.status AS other
    FROM {schema}job_targets AS first JOIN {schema}job_targets AS later USING (source_id)
    WHERE first.run_id = %(before)s AND first.status IN ('failed', 'deferred') AND later.run_id = %(after)s
    UNION ALL
    SELECT true, first.status
    FROM {schema}job_targets AS later JOIN {schema}job_targets AS first USING (source_id)
    WHERE later.run_id = %(after)s AND later.status IN ('failed', 'deferred') AND first.run_id = %(before)s
) AS both_have

-- name: job_lock_key
-- The oid of the table distinguishes schemas of one database, even if only the search path knows the schema. The table
-- is also named, so a missing one is reported by name.
SELECT hashtextextended('{schema}job_runs'::regclass::oid || ' ' || %(job)s, 0)
FROM (SELECT count(*) FROM {schema}job_runs WHERE false) AS known

-- name: job_lock_holder
-- The application name ends with its session, so it never names a dead process. It is read after the lock. pg_locks
-- splits the 64-bit key into two columns.
WITH held AS MATERIALIZED (
    SELECT pid FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32 | objid::bigint) = %(key)s
)
SELECT session.application_name FROM held CROSS JOIN LATERAL pg_stat_get_activity(held.pid) AS session

-- name: holds_job_lock
-- Asked by the session that holds the lock. pg_locks splits the 64-bit key into two columns.
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32 | objid::bigint) = %(key)s
)
