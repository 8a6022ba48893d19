-- part: step
-- Milliseconds.
CAST(:step * 1000 AS INTEGER)

-- part: begin
-- The start of the first step of the window. Steps start at whole multiples, so that none is cut.
((:now - CAST(:window * 1000 AS INTEGER)) / {step} * {step})

-- name: add_delta
-- The same event within ten seconds is the same row.
INSERT INTO task_flow (span, at, event, task_type, category, fingerprint, n, seen)
VALUES (0, ? / 10000 * 10000, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n, seen = max(seen, excluded.seen)

-- name: uncounted_tasks
-- The last id of a batch of tasks that are not counted yet.
SELECT max(id) FROM (
    SELECT id FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks) ORDER BY id LIMIT :batch
)

-- name: count_new_tasks
-- Enqueueing writes no counter, which keeps it cheap. New tasks are counted here by their ids, in batches.
INSERT INTO task_flow (span, at, event, n, seen)
SELECT 0, created_at / 10000 * 10000, 'enqueued', count(*), max(created_at)
FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks) AND id <= :up_to GROUP BY 2
ON CONFLICT DO UPDATE SET n = n + excluded.n, seen = max(seen, excluded.seen)

-- name: advance_counted_tasks
-- In the transaction of count_new_tasks, so no task is counted twice. The bound never goes back.
UPDATE counted_tasks SET up_to = max(up_to, ?)

-- name: newest_task_id
-- Before a repair, all tasks up to this one are counted.
SELECT coalesce(max(id), 0) FROM task_queue

-- part: counts_by_events
SELECT 'running', count(*) FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING'
UNION ALL
SELECT 'parked', count(*) FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED'
UNION ALL
SELECT event, sum(n) FROM task_flow WHERE span IN (-1, 0) GROUP BY event
UNION ALL
SELECT 'enqueued', count(*) FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks)

-- part: counts_by_rows
SELECT
    (SELECT count(*) FROM task_queue INDEXED BY task_queue_ready WHERE status = 'QUEUED' AND suspect = 0)
    + (SELECT count(*) FROM task_queue INDEXED BY task_queue_suspects WHERE status = 'QUEUED' AND suspect = 1),
    (SELECT count(*) FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING'),
    (SELECT count(*) FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED'),
    count(*) FILTER (WHERE status = 'DONE'),
    count(*) FILTER (WHERE status = 'FAILED'),
    count(*) FILTER (WHERE status = 'CANCELLED'),
    count(*) FILTER (WHERE status = 'DISCARDED'),
    (SELECT count(*) FROM dead_letter_queue)
FROM task_queue

-- name: counts
-- All-time totals, deltas that are not rolled up, and tasks that are not counted yet. Running and parked have small
-- indexes.
{counts_by_events}

-- name: counts_and_rows
-- The counters beside the real rows. One statement, so both are from the same moment.
WITH by_counters (name, n) AS (
{counts_by_events}
), by_rows AS (
{counts_by_rows}
)
SELECT (SELECT json_group_array(json_array(name, n)) FROM by_counters), by_rows.* FROM by_rows

-- name: event_totals
-- All-time totals, deltas that are not rolled up, and tasks that are not counted yet.
SELECT event, sum(n) FROM task_flow WHERE span IN (-1, 0) GROUP BY event
UNION ALL
SELECT 'enqueued', count(*) FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks)

-- name: bound_of_flow
-- Where a batch ends: after a whole step at least, because rows of one step are moved together.
SELECT max(at) FROM (SELECT at FROM task_flow WHERE span = :span AND at < :before ORDER BY at LIMIT :batch)

-- name: rollup_totals
-- Adds finished deltas to the all-time totals.
INSERT INTO task_flow (span, at, event, task_type, category, n, seen)
SELECT -1, 0, event, task_type, category, sum(n), max(seen)
FROM task_flow WHERE span = 0 AND at <= :bound GROUP BY event, task_type, category
ON CONFLICT DO UPDATE SET n = n + excluded.n, seen = max(seen, excluded.seen)

-- name: rollup_groups
-- Adds the counts of the deltas to the failure groups.
UPDATE failure_groups
SET failures = failure_groups.failures + fresh.failures, dead = failure_groups.dead + fresh.dead,
    last_seen = max(failure_groups.last_seen, fresh.last_seen)
FROM (
    SELECT fingerprint AS cause,
        sum(CASE WHEN event NOT IN ('replayed', 'discarded') THEN n ELSE 0 END) AS failures,
        sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS dead,
        max(CASE WHEN event NOT IN ('replayed', 'discarded') THEN seen ELSE 0 END) AS last_seen
    FROM task_flow WHERE span = 0 AND at <= :bound AND fingerprint <> '' GROUP BY fingerprint
) AS fresh
WHERE failure_groups.fingerprint = fresh.cause

-- name: rollup_failures
-- How often each group failed, step by step.
INSERT INTO failure_flow (fingerprint, span, at, event, n)
SELECT fingerprint, 10, at, event, sum(n)
FROM task_flow
WHERE span = 0 AND at <= :bound AND fingerprint <> '' AND event NOT IN ('replayed', 'discarded')
GROUP BY fingerprint, at, event
ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: rollup_flow
-- From one span into the next, by event and category only.
INSERT INTO task_flow (span, at, event, category, n, seen)
SELECT :into, at / (:into * 1000) * (:into * 1000), event, category, sum(n), max(seen)
FROM task_flow WHERE span = :span AND at <= :bound GROUP BY 2, event, category
ON CONFLICT DO UPDATE SET n = n + excluded.n, seen = max(seen, excluded.seen)

-- name: delete_flow
-- After the rows up to the bound were added to the next span, in the same transaction.
DELETE FROM task_flow WHERE span = :span AND at <= :bound

-- name: bound_of_failure_flow
-- The same as bound_of_flow for the flow of failure groups.
SELECT max(at) FROM (
    SELECT at FROM failure_flow INDEXED BY failure_flow_age WHERE span = :span AND at < :before ORDER BY at LIMIT :batch
)

-- name: rollup_failure_flow
-- The same as rollup_flow for the flow of failure groups.
INSERT INTO failure_flow (fingerprint, span, at, event, n)
SELECT fingerprint, :into, at / (:into * 1000) * (:into * 1000), event, sum(n)
FROM failure_flow INDEXED BY failure_flow_age WHERE span = :span AND at <= :bound GROUP BY fingerprint, 3, event
ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: delete_failure_flow
-- The same as delete_flow for the flow of failure groups.
DELETE FROM failure_flow WHERE span = :span AND at <= :bound

-- name: repair_compare
-- Rows and counters in one statement, so both are from the same moment.
SELECT 'task', status, '', '', count(*) FROM task_queue GROUP BY status
UNION ALL
SELECT 'dead_letter', '', task_type, error_category, count(*) FROM dead_letter_queue GROUP BY task_type, error_category
UNION ALL
SELECT 'event', event, task_type, category, sum(n) FROM task_flow WHERE span IN (-1, 0) GROUP BY event, task_type, category

-- name: repair_totals
-- Adds the difference to the all-time total instead of overwriting it: the deltas stay as they are.
INSERT INTO task_flow (span, at, event, task_type, category, n, seen)
VALUES (-1, 0, :event, :task_type, :category, :n, :now)
ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: repair_groups
-- The dead letters of each group, minus what its deltas will add.
UPDATE failure_groups
SET dead = failure_groups.dead + lack.n, failures = max(failure_groups.failures, failure_groups.dead + lack.n)
FROM (
    SELECT wrong.fingerprint AS cause, coalesce(letters.n, 0) - coalesce(deltas.n, 0) - wrong.dead AS n
    FROM failure_groups AS wrong
    LEFT JOIN (
        SELECT fingerprint, count(*) AS n FROM dead_letter_queue GROUP BY fingerprint
    ) AS letters ON letters.fingerprint = wrong.fingerprint
    LEFT JOIN (
        SELECT fingerprint,
            sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS n
        FROM task_flow WHERE span = 0 AND fingerprint <> '' GROUP BY fingerprint
    ) AS deltas ON deltas.fingerprint = wrong.fingerprint
) AS lack
WHERE failure_groups.fingerprint = lack.cause AND lack.n <> 0

-- name: repair_missing_groups
-- Groups for dead letters that have none. They are marked as announced: they are not news. Beside min(), SQLite takes
-- the other columns from the first row of each group.
INSERT INTO failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, told)
SELECT fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, 1
FROM (
    SELECT fingerprint, task_type, error_type, error_category, error_message, moved_to_dlq_at AS first_seen, min(id), (
        SELECT max(moved_to_dlq_at) FROM dead_letter_queue AS all_of WHERE all_of.fingerprint = letter.fingerprint
    ) AS last_seen
    FROM dead_letter_queue AS letter
    WHERE fingerprint <> '' AND fingerprint NOT IN (SELECT fingerprint FROM failure_groups)
    GROUP BY fingerprint
)

-- name: repair_dead_letters
-- A failed task whose dead letter was deleted by hand gets a new one from the task and its last attempt.
INSERT INTO dead_letter_queue
    (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
     error_type, error_message, error_category, reason, fingerprint, traceback, failure,
     retry_count, crash_count, replays, worker_id, created_at, moved_to_dlq_at, replay_id, options)
SELECT
    task.id, task.task_type, task.queue, task.priority, task.parameters, task.resource, task.unique_key,
    coalesce(last.error_type, ''), coalesce(last.error_message, ''), coalesce(last.error_category, 'unknown'), 'exhausted',
    coalesce(last.fingerprint, ''), coalesce(last.traceback, ''), coalesce(last.failure, '{}'),
    task.retry_count, task.crash_count, task.replays, task.worker_id, task.created_at, :now, task.replay_id,
    task.options
FROM task_queue AS task
LEFT JOIN task_attempts AS last ON last.id = (SELECT max(id) FROM task_attempts WHERE task_id = task.id)
WHERE task.status = 'FAILED' AND task.id NOT IN (SELECT original_task_id FROM dead_letter_queue)
ORDER BY task.id

-- name: status_snapshot
-- One statement, so everything is from the same moment. It reads no finished task and no dead letter.
WITH RECURSIVE
-- Tasks that are not counted yet.
fresh (at, n) AS MATERIALIZED (
    SELECT created_at / 10000 * 10000, count(*)
    FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks) GROUP BY 1
),
-- The two finest spans cover more than two hours.
hours (event, category, last, before) AS (
    SELECT event, category,
        sum(CASE WHEN at > :now - 3600000 THEN n ELSE 0 END),
        sum(CASE WHEN at > :now - 3600000 THEN 0 ELSE n END)
    FROM (
        SELECT at, event, category, n FROM task_flow WHERE span IN (0, 10) AND at > :now - 7200000
        UNION ALL
        SELECT at, 'enqueued', '', n FROM fresh WHERE at > :now - 7200000
    )
    GROUP BY event, category
),
flow (at, event, category, n) AS (
    SELECT at / {step} * {step}, event, category, sum(n)
    FROM (
        SELECT at, event, category, n FROM task_flow WHERE span IN (0, 10, 600, 86400) AND at >= {begin}
        UNION ALL
        SELECT at, 'enqueued', '', n FROM fresh WHERE at >= {begin}
    )
    GROUP BY 1, 2, 3
),
-- Jumps from one queue name to the next, however many tasks a queue has.
waiting (queue) AS (
    SELECT min(queue) FROM task_queue INDEXED BY task_queue_ready WHERE status = 'QUEUED' AND suspect = 0
    UNION ALL
    SELECT (
        SELECT min(queue) FROM task_queue INDEXED BY task_queue_ready
        WHERE status = 'QUEUED' AND suspect = 0 AND task_queue.queue > waiting.queue
    )
    FROM waiting WHERE queue IS NOT NULL
),
suspects (queue) AS (
    SELECT min(queue) FROM task_queue INDEXED BY task_queue_suspects WHERE status = 'QUEUED' AND suspect = 1
    UNION ALL
    SELECT (
        SELECT min(queue) FROM task_queue INDEXED BY task_queue_suspects
        WHERE status = 'QUEUED' AND suspect = 1 AND task_queue.queue > suspects.queue
    )
    FROM suspects WHERE queue IS NOT NULL
),
priorities (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)),
due (at) AS (
    SELECT (
        SELECT next_run_after FROM task_queue INDEXED BY task_queue_ready
        WHERE status = 'QUEUED' AND suspect = 0 AND task_queue.queue = waiting.queue
            AND task_queue.priority = priorities.priority
        ORDER BY next_run_after LIMIT 1
    )
    FROM waiting CROSS JOIN priorities
    WHERE queue IS NOT NULL AND queue NOT IN (SELECT name FROM queues WHERE paused = 1)
    UNION ALL
    SELECT (
        SELECT next_run_after FROM task_queue INDEXED BY task_queue_suspects
        WHERE status = 'QUEUED' AND suspect = 1 AND task_queue.queue = suspects.queue
        ORDER BY next_run_after LIMIT 1
    )
    FROM suspects WHERE queue IS NOT NULL AND queue NOT IN (SELECT name FROM queues WHERE paused = 1)
),
known (resource, before, state, reason, updated_at, until) AS (
    SELECT resource, before, state, reason, updated_at, until FROM breakers
    WHERE CASE WHEN is_worker THEN process IN (SELECT id FROM workers) ELSE updated_at >= :now - :silent * 1000 END
),
changes (at, kind, subject, name, before, after, text) AS (
    SELECT * FROM (
        SELECT first_seen, 'group', fingerprint, task_type, '', error_category, error_message
        FROM failure_groups INDEXED BY failure_groups_first
        WHERE first_seen > :now - 3600000 ORDER BY first_seen DESC LIMIT :changes
    )
    UNION ALL
    SELECT * FROM (
        SELECT at, 'source', source_id, coalesce(nullif(sources.name, ''), sources.url, ''), coalesce(before, ''), after,
            coalesce(error, '')
        FROM source_polls INDEXED BY source_polls_changes LEFT JOIN sources ON sources.id = source_id
        WHERE after IS NOT NULL AND at > :now - 3600000 ORDER BY at DESC LIMIT :changes
    )
    UNION ALL
    SELECT * FROM (
        SELECT ended_at, 'run', id, job, '', state || coalesce(' ' || exit_code, ''), ''
        FROM job_runs INDEXED BY job_runs_ended
        WHERE ended_at > :now - 3600000 ORDER BY ended_at DESC LIMIT :changes
    )
    UNION ALL
    SELECT * FROM (
        SELECT max(updated_at), 'breaker', resource, resource, before, state, reason
        FROM known WHERE updated_at > :now - 3600000 AND (before <> '' OR state <> 'closed')
        GROUP BY resource, before, state ORDER BY 1 DESC LIMIT :changes
    )
    UNION ALL
    SELECT * FROM (
        SELECT started_at, 'worker', id, name, '', state, ''
        FROM workers WHERE started_at > :now - 3600000 ORDER BY started_at DESC LIMIT :changes
    )
)
SELECT json_object(
    'at', :now / 1000.0,
    'totals', (
        SELECT json_group_array(json_array(event, n))
        FROM (
            SELECT event, sum(n) AS n FROM task_flow WHERE span IN (-1, 0) GROUP BY event
            UNION ALL
            SELECT 'enqueued', n FROM fresh
        )
    ),
    'running', (SELECT count(*) FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING'),
    'parked', (SELECT count(*) FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED'),
    'flow', (SELECT json_group_array(json_array(at / 1000.0, event, category, n)) FROM flow),
    'hours', (SELECT json_group_array(json_array(event, category, last, before)) FROM hours),
    'retries_waiting', (
        SELECT count(*) FROM (
            SELECT 1 FROM task_queue INDEXED BY task_queue_retries
            WHERE status = 'QUEUED' AND retry_count > 0 LIMIT :most
        )
    ),
    'oldest_ready', (SELECT CASE WHEN min(at) <= :now THEN (:now - min(at)) / 1000.0 END FROM due),
    'workers', (SELECT count(*) FROM workers WHERE expires_at > :now),
    'silent_workers', (SELECT count(*) FROM workers WHERE expires_at <= :now),
    'sources', (
        SELECT json_group_array(json_array(state, n))
        FROM (SELECT state, count(*) AS n FROM sources INDEXED BY sources_state GROUP BY state)
    ),
    'cooldowns', (SELECT count(*) FROM cooldowns WHERE until > :now),
    'open_breakers', (
        SELECT count(DISTINCT resource) FROM known WHERE state = 'open' AND (until IS NULL OR until > :now)
    ),
    'paused_queues', (SELECT count(*) FROM queues WHERE paused = 1),
    'alerts_waiting', (
        SELECT count(*) FROM (
            SELECT 1 FROM alerts INDEXED BY alerts_waiting WHERE delivered_at IS NULL LIMIT :most
        )
    ),
    'running_jobs', (SELECT count(*) FROM job_runs INDEXED BY job_runs_running WHERE ended_at IS NULL),
    'newest_task', coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'task_queue'), 0),
    'newest_dead_letter', coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'dead_letter_queue'), 0),
    'not_rolled_up', (
        SELECT (:now - min(at)) / 1000.0
        FROM (SELECT min(at) AS at FROM task_flow WHERE span = 0 UNION ALL SELECT min(at) FROM fresh)
    ),
    'changes', (
        SELECT json_group_array(json_array(at / 1000.0, kind, subject, name, before, after, text)) FROM changes
    )
)
