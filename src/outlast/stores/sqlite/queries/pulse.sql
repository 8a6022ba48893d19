-- All in one statement, so that all of it is of one moment. Nothing here looks at a task that is over or at a dead letter.
WITH RECURSIVE
-- Tasks that are not in the books yet.
fresh (at, n) AS MATERIALIZED (
    SELECT created_at / 10000 * 10000, count(*)
    FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks) GROUP BY 1
),
-- The newest flow in its two finest forms covers two hours and more.
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
    SELECT at / :step * :step, event, category, sum(n)
    FROM (
        SELECT at, event, category, n FROM task_flow WHERE span IN (0, 10, 600, 86400) AND at >= :begin
        UNION ALL
        SELECT at, 'enqueued', '', n FROM fresh WHERE at >= :begin
    )
    GROUP BY 1, 2, 3
),
-- From one name to the next, however many tasks a queue has.
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
    WHERE CASE WHEN is_worker THEN process IN (SELECT id FROM workers) ELSE updated_at >= :heard END
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
