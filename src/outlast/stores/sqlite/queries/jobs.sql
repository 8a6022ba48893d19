-- part: run_columns
id, job, entity, env, parent, state, total, exit_code, summary, started_at, ended_at

-- part: target_columns
run_id, source_id, status, attempts, target, error_type, error_message, category, origin, http_status, fingerprint,
    retry_at, finished_at

-- name: add_run
-- A taken id adds nothing, and the caller reports it.
INSERT INTO job_runs (id, job, entity, env, parent, started_at) VALUES (:id, :job, :entity, :env, :parent, :now)
ON CONFLICT (id) DO NOTHING
RETURNING {run_columns}

-- name: get_run
-- Used by the page of one run.
SELECT {run_columns} FROM job_runs WHERE id = :id

-- part: older_runs
(started_at, id) < (SELECT started_at, id FROM job_runs WHERE id = :before)

-- name: list_runs
-- One statement per filter, so that each reads its index in order and stops at the limit.
SELECT {run_columns} FROM job_runs ORDER BY started_at DESC, id DESC LIMIT :limit

-- name: list_runs_before
-- The next page. The id breaks ties between runs that started at the same time.
SELECT {run_columns} FROM job_runs WHERE {older_runs} ORDER BY started_at DESC, id DESC LIMIT :limit

-- name: list_job_runs
-- The same for one job.
SELECT {run_columns} FROM job_runs WHERE job = :job ORDER BY started_at DESC, id DESC LIMIT :limit

-- name: list_job_runs_before
-- The next page of one job.
SELECT {run_columns} FROM job_runs WHERE job = :job AND {older_runs} ORDER BY started_at DESC, id DESC LIMIT :limit

-- name: reopen_run
-- Clears the result of the first run; the finished targets stay.
UPDATE job_runs SET state = 'running', total = 0, exit_code = NULL, summary = NULL, ended_at = NULL WHERE id = :id
RETURNING {run_columns}

-- name: end_run
-- The summary is JSON, and only the number of targets also has a column.
UPDATE job_runs
SET state = :state, total = :total, exit_code = :exit_code, summary = :summary, ended_at = :now
WHERE id = :id

-- name: add_target
-- The common case by itself: the number of added rows is the number of new targets.
INSERT INTO job_targets (
    {target_columns}
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, source_id) DO NOTHING

-- name: upsert_target
-- The last result counts, but a success stays.
INSERT INTO job_targets AS known (
    {target_columns}
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, source_id) DO UPDATE
SET status = excluded.status, attempts = excluded.attempts, target = excluded.target, error_type = excluded.error_type,
    error_message = excluded.error_message, category = excluded.category, origin = excluded.origin,
    http_status = excluded.http_status, fingerprint = excluded.fingerprint, retry_at = excluded.retry_at,
    finished_at = excluded.finished_at
WHERE known.status <> 'success' OR excluded.status = 'success'

-- name: done_targets
-- CROSS JOIN makes the given ids lead, each to its row.
SELECT target.source_id
FROM json_each(:ids) AS given CROSS JOIN job_targets AS target ON target.run_id = :run_id AND target.source_id = given.value
WHERE target.status IN ('success', 'skipped')

-- name: list_targets
-- By key, from where the last page ended: no page is skipped if targets are added meanwhile.
SELECT {target_columns}
FROM job_targets
WHERE run_id = :run_id AND source_id >= coalesce(:after, '')
    AND source_id IS NOT :after AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY source_id LIMIT :limit

-- name: list_unfinished_targets
-- Unfinished targets have their own index; the first condition on the status makes it usable.
SELECT {target_columns}
FROM job_targets INDEXED BY job_targets_left
WHERE run_id = :run_id AND source_id >= coalesce(:after, '') AND source_id IS NOT :after
    AND status IN ('failed', 'deferred') AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY source_id LIMIT :limit

-- name: count_targets
-- Used by the summary of a run; one range of the primary key.
SELECT status, count(*) FROM job_targets WHERE run_id = :run_id GROUP BY status

-- name: group_failed_targets
-- Counted by the index alone, then one row for each group.
WITH largest AS MATERIALIZED (
    SELECT coalesce(fingerprint, '') AS cause, count(*) AS size, min(source_id) AS first_id
    FROM job_targets INDEXED BY job_targets_left
    WHERE run_id = :run_id AND status IN ('failed', 'deferred') AND status = 'failed'
    GROUP BY cause ORDER BY size DESC, cause LIMIT :limit
)
SELECT largest.cause, largest.size, {target_columns}
FROM largest CROSS JOIN job_targets ON run_id = :run_id AND source_id = largest.first_id
ORDER BY largest.size DESC, largest.cause

-- name: compare_runs
-- From the unfinished targets of one run, the smaller part, to their rows in the other run.
SELECT
    count(*) FILTER (WHERE other = 'success' AND NOT is_after) AS fixed,
    count(*) FILTER (WHERE other = 'success' AND is_after) AS broken,
    count(*) FILTER (WHERE other IN ('failed', 'deferred') AND NOT is_after) AS still
FROM (
    SELECT 0 AS is_after, later.status AS other
    FROM job_targets AS first INDEXED BY job_targets_left
        CROSS JOIN job_targets AS later ON later.run_id = :after AND later.source_id = first.source_id
    WHERE first.run_id = :before AND first.status IN ('failed', 'deferred')
    UNION ALL
    SELECT 1, first.status
    FROM job_targets AS later INDEXED BY job_targets_left
        CROSS JOIN job_targets AS first ON first.run_id = :before AND first.source_id = later.source_id
    WHERE later.run_id = :after AND later.status IN ('failed', 'deferred')
)
