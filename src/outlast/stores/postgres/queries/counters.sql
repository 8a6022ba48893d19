-- part: failure_events
'retried', 'deferred', 'lost', 'failed', 'would_retry', 'would_defer', 'would_fail', 'would_abort', 'would_skip',
    'would_disable'

-- part: counts_by_events
SELECT event, sum(n)::bigint FROM {schema}task_flow WHERE span IN (-1, 0) GROUP BY event
UNION ALL
SELECT 'running', count(*) FROM {schema}task_queue WHERE status = 'RUNNING'
UNION ALL
SELECT 'parked', count(*) FROM {schema}task_queue WHERE status = 'PARKED'

-- part: counts_by_rows
SELECT status, count(*) FROM {schema}task_queue GROUP BY status
UNION ALL
SELECT 'dead_letters', count(*) FROM {schema}dead_letter_queue

-- name: counts
-- From the counters; running and parked tasks have small indexes.
{counts_by_events}

-- name: counts_and_rows
-- The counters beside the real rows. One statement, so both are from the same moment.
WITH by_counters (name, n) AS (
{counts_by_events}
), by_rows (name, n) AS (
{counts_by_rows}
)
SELECT
    (SELECT json_agg(json_build_array(name, n)) FROM by_counters),
    (SELECT json_agg(json_build_array(name, n)) FROM by_rows)

-- name: event_totals
-- All-time totals plus the deltas that are not rolled up yet.
SELECT event, sum(n)::bigint FROM {schema}task_flow WHERE span IN (-1, 0) GROUP BY event

-- name: rollup_deltas
-- Adds deltas older than ten seconds to the flow, the totals and the failure groups, in batches. One process at a time;
-- without the lock there is nothing to do. A process that gets the lock right after another sees rows that are gone:
-- they are skipped. Each batch starts where the last one ended, so it does not read deleted rows again.
WITH rollup_lock AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(7093010443484004352 | '{schema}task_flow'::regclass::oid::bigint) AS acquired
),
moved AS (
    DELETE FROM {schema}task_flow
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}task_flow
        WHERE span = 0 AND at < to_timestamp(floor((extract(epoch FROM now()) - 10) / 10) * 10)
            AND (SELECT acquired FROM rollup_lock) AND at >= coalesce(%(since)s::timestamptz, '-infinity')
        ORDER BY at, id LIMIT %(batch)s
    ))
    RETURNING at, n, event, task_type, category, fingerprint
),
steps AS MATERIALIZED (
    SELECT to_timestamp(floor(extract(epoch FROM at) / 10) * 10) AS begin, event, task_type, category, fingerprint,
        sum(n)::bigint AS n, max(at) AS seen, event IN ({failure_events}) AS is_failure
    FROM moved GROUP BY 1, 2, 3, 4, 5
),
flow AS (
    INSERT INTO {schema}task_flow (span, at, event, category, n)
    SELECT 10, begin, event, category, sum(n) FROM steps GROUP BY begin, event, category
),
totals AS (
    INSERT INTO {schema}task_flow AS known (span, at, event, task_type, category, n)
    SELECT -1, to_timestamp(0), event, task_type, category, sum(n) FROM steps GROUP BY event, task_type, category
    ON CONFLICT (event, task_type, category) WHERE span = -1 DO UPDATE SET n = known.n + excluded.n
),
causes AS (
    INSERT INTO {schema}failure_flow AS known (span, at, fingerprint, event, n)
    SELECT 10, begin, fingerprint, event, sum(n) FROM steps WHERE is_failure AND fingerprint <> ''
    GROUP BY begin, fingerprint, event
    ON CONFLICT (fingerprint, span, at, event) DO UPDATE SET n = known.n + excluded.n
),
groups AS (
    UPDATE {schema}failure_groups AS known
    SET failures = known.failures + more.failures, dead = known.dead + more.dead,
        last_seen = greatest(known.last_seen, more.seen)
    FROM (
        SELECT fingerprint, coalesce(sum(n) FILTER (WHERE is_failure), 0) AS failures,
            sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS dead,
            max(seen) FILTER (WHERE is_failure) AS seen
        FROM steps WHERE fingerprint <> '' GROUP BY fingerprint
    ) AS more
    WHERE known.fingerprint = more.fingerprint
)
SELECT count(*), max(at) FROM moved

-- name: rollup_flow
-- From one span into the next, or deleted. Whole steps of the next span are moved, so each becomes one row there.
WITH rollup_lock AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(7093010443484004352 | '{schema}task_flow'::regclass::oid::bigint) AS acquired
),
moved AS (
    DELETE FROM {schema}task_flow
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}task_flow
        WHERE span = %(span)s AND (SELECT acquired FROM rollup_lock)
            AND at >= coalesce(%(since)s::timestamptz, '-infinity')
            AND at < to_timestamp(floor((extract(epoch FROM now()) - %(age)s) / %(into)s) * %(into)s)
        ORDER BY at, id LIMIT %(batch)s
    ))
    RETURNING at, n, event, category
),
flow AS (
    INSERT INTO {schema}task_flow (span, at, event, category, n)
    SELECT %(into)s, to_timestamp(floor(extract(epoch FROM at) / %(into)s) * %(into)s) AS begin, event, category, sum(n)
    FROM moved WHERE %(keep)s
    GROUP BY begin, event, category
)
SELECT count(*), max(at) FROM moved

-- name: rollup_failure_flow
-- The same for the flow of failure groups.
WITH rollup_lock AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(7093010443484004352 | '{schema}task_flow'::regclass::oid::bigint) AS acquired
),
moved AS (
    DELETE FROM {schema}failure_flow
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}failure_flow
        WHERE span = %(span)s AND (SELECT acquired FROM rollup_lock)
            AND at >= coalesce(%(since)s::timestamptz, '-infinity')
            AND at < to_timestamp(floor((extract(epoch FROM now()) - %(age)s) / %(into)s) * %(into)s)
        ORDER BY at LIMIT %(batch)s
    ))
    RETURNING at, n, fingerprint, event
),
flow AS (
    INSERT INTO {schema}failure_flow AS known (span, at, fingerprint, event, n)
    SELECT %(into)s, to_timestamp(floor(extract(epoch FROM at) / %(into)s) * %(into)s) AS begin, fingerprint, event, sum(n)
    FROM moved WHERE %(keep)s
    GROUP BY begin, fingerprint, event
    ON CONFLICT (fingerprint, span, at, event) DO UPDATE SET n = known.n + excluded.n
)
SELECT count(*), max(at) FROM moved

-- name: lock_rollup
-- No rollup until this transaction ends; it would move rows between two reads.
SELECT pg_advisory_xact_lock(7093010443484004352 | '{schema}task_flow'::regclass::oid::bigint)

-- name: repair_compare
-- Rows and counters in one statement: it sees a change and its delta together, so nobody has to wait. Dead letters are
-- counted as the counters do: only those whose task is FAILED.
SELECT 'task', status, '', '', count(*) FROM {schema}task_queue GROUP BY status
UNION ALL
SELECT 'dead_letter', '', letter.task_type, letter.error_category, count(*)
FROM {schema}dead_letter_queue AS letter
JOIN {schema}task_queue AS task ON task.id = letter.original_task_id AND task.status = 'FAILED'
GROUP BY letter.task_type, letter.error_category
UNION ALL
SELECT 'event', event, task_type, category, sum(n)::bigint FROM {schema}task_flow WHERE span IN (-1, 0)
GROUP BY event, task_type, category

-- name: repair_totals
-- Adds the difference to the all-time total instead of overwriting it: the deltas stay as they are.
INSERT INTO {schema}task_flow AS known (span, at, event, task_type, category, n)
SELECT -1, to_timestamp(0), event, task_type, category, n
FROM json_to_recordset(%(rows)s::json) AS given (event text, task_type text, category text, n bigint)
ON CONFLICT (event, task_type, category) WHERE span = -1 DO UPDATE SET n = known.n + excluded.n

-- name: repair_groups
-- The dead letters of each group, minus what its deltas will add.
UPDATE {schema}failure_groups AS known
SET dead = known.dead + lack.n, failures = greatest(known.failures, known.dead + lack.n)
FROM (
    SELECT wrong.fingerprint, coalesce(letters.n, 0) - coalesce(deltas.n, 0) - wrong.dead AS n
    FROM {schema}failure_groups AS wrong
    LEFT JOIN (
        SELECT letter.fingerprint, count(*) AS n
        FROM {schema}dead_letter_queue AS letter
        JOIN {schema}task_queue AS task ON task.id = letter.original_task_id AND task.status = 'FAILED'
        GROUP BY letter.fingerprint
    ) AS letters USING (fingerprint)
    LEFT JOIN (
        SELECT fingerprint,
            sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END)::bigint AS n
        FROM {schema}task_flow WHERE span = 0 AND fingerprint <> '' GROUP BY fingerprint
    ) AS deltas USING (fingerprint)
) AS lack
WHERE lack.fingerprint = known.fingerprint AND lack.n <> 0

-- name: repair_missing_groups
-- Groups for dead letters that have none. They are marked as announced: they are not news.
INSERT INTO {schema}failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, told)
SELECT DISTINCT ON (fingerprint) fingerprint, task_type, error_type, error_category, error_message,
    min(moved_to_dlq_at) OVER same, max(moved_to_dlq_at) OVER same, true
FROM {schema}dead_letter_queue AS letter
WHERE fingerprint <> ''
    AND NOT EXISTS (SELECT FROM {schema}failure_groups AS known WHERE known.fingerprint = letter.fingerprint)
WINDOW same AS (PARTITION BY fingerprint)
ORDER BY fingerprint, id
ON CONFLICT DO NOTHING

-- name: repair_dead_letters
-- A failed task whose dead letter was deleted by hand gets a new one from the task and its last attempt.
INSERT INTO {schema}dead_letter_queue
    (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
     error_type, error_message, error_category, reason, fingerprint, traceback, failure,
     retry_count, crash_count, replays, worker_id, created_at, moved_to_dlq_at, replay_id, options)
SELECT
    task.id, task.task_type, task.queue, task.priority, task.parameters, task.resource, task.unique_key,
    coalesce(last.error_type, ''), coalesce(last.error_message, ''), coalesce(last.error_category, 'unknown'), 'exhausted',
    coalesce(last.fingerprint, ''), coalesce(last.traceback, ''), coalesce(last.failure, '{}'),
    task.retry_count, task.crash_count, task.replays, task.worker_id, task.created_at, now(), task.replay_id,
    task.options
FROM {schema}task_queue AS task
LEFT JOIN LATERAL (
    SELECT * FROM {schema}task_attempts AS tried WHERE tried.task_id = task.id ORDER BY tried.id DESC LIMIT 1
) AS last ON true
WHERE task.status = 'FAILED'
    AND NOT EXISTS (SELECT FROM {schema}dead_letter_queue AS letter WHERE letter.original_task_id = task.id)
ORDER BY task.id
ON CONFLICT (original_task_id) DO NOTHING

-- name: status_snapshot
-- One statement, so everything is from the same moment. It reads no finished task and no dead letter. ORDER BY with
-- LIMIT picks the index to count by. Ids are also used up by taken keys, so the sequence is only read if no task is
-- left.
WITH RECURSIVE recent AS MATERIALIZED (
    SELECT at, event, category, n FROM {schema}task_flow
    WHERE span IN (0, 10, 600, 86400) AND at >= least(
        now() - interval '2 hours', to_timestamp(floor((extract(epoch FROM now()) - %(window)s) / %(step)s) * %(step)s)
    )
),
totals AS MATERIALIZED (
    SELECT event, sum(n)::bigint AS n FROM {schema}task_flow WHERE span IN (-1, 0) GROUP BY event
),
flow AS (
    SELECT floor(extract(epoch FROM at) / %(step)s) * %(step)s AS begin, event, category, sum(n)::bigint AS n
    FROM recent
    WHERE at >= to_timestamp(floor((extract(epoch FROM now()) - %(window)s) / %(step)s) * %(step)s)
    GROUP BY 1, 2, 3
),
hours AS (
    SELECT event, category, coalesce(sum(n) FILTER (WHERE at > now() - interval '1 hour'), 0)::bigint AS last,
        coalesce(sum(n) FILTER (WHERE at <= now() - interval '1 hour'), 0)::bigint AS before
    FROM recent WHERE at > now() - interval '2 hours'
    GROUP BY event, category
),
-- Jumps from one queue name to the next, however many tasks a queue has.
waiting (queue) AS (
    (SELECT queue FROM {schema}task_queue WHERE status = 'QUEUED' AND NOT suspect ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT task.queue FROM {schema}task_queue AS task
        WHERE task.status = 'QUEUED' AND NOT task.suspect AND task.queue > waiting.queue
        ORDER BY task.queue LIMIT 1
    )
    FROM waiting WHERE waiting.queue IS NOT NULL
),
suspects (queue) AS (
    (SELECT queue FROM {schema}task_queue WHERE status = 'QUEUED' AND suspect ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT task.queue FROM {schema}task_queue AS task
        WHERE task.status = 'QUEUED' AND task.suspect AND task.queue > suspects.queue
        ORDER BY task.queue LIMIT 1
    )
    FROM suspects WHERE suspects.queue IS NOT NULL
),
due AS (
    SELECT (
        SELECT next_run_after FROM {schema}task_queue AS task
        WHERE status = 'QUEUED' AND NOT suspect AND task.queue = waiting.queue AND task.priority = priorities.priority
        ORDER BY next_run_after, id LIMIT 1
    ) AS at
    FROM waiting CROSS JOIN generate_series(0, 9) AS priorities (priority)
    WHERE waiting.queue NOT IN (SELECT name FROM {schema}queues WHERE paused)
    UNION ALL
    SELECT (
        SELECT next_run_after FROM {schema}task_queue AS task
        WHERE status = 'QUEUED' AND suspect AND task.queue = suspects.queue
        ORDER BY next_run_after, id LIMIT 1
    )
    FROM suspects WHERE suspects.queue NOT IN (SELECT name FROM {schema}queues WHERE paused)
),
known AS MATERIALIZED (
    SELECT resource, before, state, reason, updated_at, until FROM {schema}breakers
    WHERE CASE
        WHEN is_worker THEN process IN (SELECT id FROM {schema}workers)
        ELSE updated_at >= now() - make_interval(secs => %(silent)s)
    END
),
changes AS (
    (
        SELECT first_seen AS at, 'group' AS kind, fingerprint AS subject, task_type AS name, '' AS before,
            error_category AS after, error_message AS text
        FROM {schema}failure_groups
        WHERE first_seen > now() - interval '1 hour' ORDER BY first_seen DESC LIMIT %(changes)s
    )
    UNION ALL
    (
        SELECT polls.at, 'source', polls.source_id::text, coalesce(nullif(source.name, ''), source.url, ''),
            coalesce(polls.before, ''), polls.after, coalesce(polls.error, '')
        FROM (
            SELECT * FROM {schema}source_polls
            WHERE after IS NOT NULL AND at > now() - interval '1 hour' ORDER BY at DESC LIMIT %(changes)s
        ) AS polls
        LEFT JOIN {schema}sources AS source ON source.id = polls.source_id
    )
    UNION ALL
    (
        SELECT ended_at, 'run', id, job, '', state || coalesce(' ' || exit_code, ''), ''
        FROM {schema}job_runs
        WHERE ended_at IS NOT NULL AND ended_at > now() - interval '1 hour' ORDER BY ended_at DESC LIMIT %(changes)s
    )
    UNION ALL
    (
        SELECT max(updated_at), 'breaker', resource, resource, before, state, max(reason)
        FROM known WHERE updated_at > now() - interval '1 hour' AND (before <> '' OR state <> 'closed')
        GROUP BY resource, before, state ORDER BY 1 DESC LIMIT %(changes)s
    )
    UNION ALL
    (
        SELECT started_at, 'worker', id, name, '', state, ''
        FROM {schema}workers WHERE started_at > now() - interval '1 hour' ORDER BY started_at DESC LIMIT %(changes)s
    )
)
SELECT json_build_object(
    'at', extract(epoch FROM now()),
    'totals', (SELECT coalesce(json_agg(json_build_array(event, n)), '[]') FROM totals),
    'running', (SELECT count(*) FROM {schema}task_queue WHERE status = 'RUNNING'),
    'parked', (SELECT count(*) FROM {schema}task_queue WHERE status = 'PARKED'),
    'flow', (SELECT coalesce(json_agg(json_build_array(begin, event, category, n)), '[]') FROM flow),
    'hours', (SELECT coalesce(json_agg(json_build_array(event, category, last, before)), '[]') FROM hours),
    'retries_waiting', (
        SELECT count(*)
        FROM (
            SELECT FROM {schema}task_queue
            WHERE status = 'QUEUED' AND retry_count > 0 ORDER BY next_run_after LIMIT %(most)s
        ) AS retries
    ),
    'oldest_ready', (SELECT extract(epoch FROM now() - min(at)) FROM due WHERE at <= now()),
    'workers', (SELECT count(*) FROM {schema}workers WHERE expires_at > now()),
    'silent_workers', (SELECT count(*) FROM {schema}workers WHERE expires_at <= now()),
    'sources', (
        SELECT coalesce(json_agg(json_build_array(state, n)), '[]')
        FROM (SELECT state, count(*) AS n FROM {schema}sources GROUP BY state) AS states
    ),
    'cooldowns', (SELECT count(*) FROM {schema}cooldowns WHERE until > now()),
    'open_breakers', (
        SELECT count(DISTINCT resource) FROM known WHERE state = 'open' AND (until IS NULL OR until > now())
    ),
    'paused_queues', (SELECT count(*) FROM {schema}queues WHERE paused),
    'alerts_waiting', (
        SELECT count(*)
        FROM (SELECT FROM {schema}alerts WHERE delivered_at IS NULL ORDER BY key, id LIMIT %(most)s) AS alerts
    ),
    'running_jobs', (SELECT count(*) FROM {schema}job_runs WHERE ended_at IS NULL),
    'newest_task', coalesce(
        (SELECT max(id) FROM {schema}task_queue),
        (SELECT last_value FROM {schema}task_queue_id_seq, totals WHERE event = 'enqueued'), 0
    ),
    'newest_dead_letter', coalesce(
        (SELECT last_value FROM {schema}dead_letter_queue_id_seq, totals WHERE event = 'failed'), 0
    ),
    'not_rolled_up', (SELECT extract(epoch FROM now() - min(at)) FROM {schema}task_flow WHERE span = 0),
    'changes', (
        SELECT coalesce(
            json_agg(json_build_array(extract(epoch FROM at), kind, subject, name, before, after, text)), '[]'
        )
        FROM changes
    )
)::text
