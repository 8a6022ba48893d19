-- All in one statement, so that all of it is of one moment. Nothing here looks at a task that is over or at a dead letter.
-- Where rows are counted up to a number, they are read in the order of the index that is meant to be read. Numbers of tasks are
-- drawn for nothing where a key is taken, so the last one that was drawn is asked only where no task is left.
WITH RECURSIVE recent AS MATERIALIZED (
    SELECT at, event, category, n FROM outlast.task_flow
    WHERE span IN (0, 10, 600, 86400) AND at >= least(
        now() - interval '2 hours', to_timestamp(floor((extract(epoch FROM now()) - %(window)s) / %(step)s) * %(step)s)
    )
),
ever AS MATERIALIZED (
    SELECT event, sum(n)::bigint AS n FROM outlast.task_flow WHERE span IN (-1, 0) GROUP BY event
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
-- from one name to the next, however many tasks a queue has
waiting (queue) AS (
    (SELECT queue FROM outlast.task_queue WHERE status = 'QUEUED' AND NOT suspect ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT task.queue FROM outlast.task_queue AS task
        WHERE task.status = 'QUEUED' AND NOT task.suspect AND task.queue > waiting.queue
        ORDER BY task.queue LIMIT 1
    )
    FROM waiting WHERE waiting.queue IS NOT NULL
),
suspects (queue) AS (
    (SELECT queue FROM outlast.task_queue WHERE status = 'QUEUED' AND suspect ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT task.queue FROM outlast.task_queue AS task
        WHERE task.status = 'QUEUED' AND task.suspect AND task.queue > suspects.queue
        ORDER BY task.queue LIMIT 1
    )
    FROM suspects WHERE suspects.queue IS NOT NULL
),
due AS (
    SELECT (
        SELECT next_run_after FROM outlast.task_queue AS task
        WHERE status = 'QUEUED' AND NOT suspect AND task.queue = waiting.queue AND task.priority = priorities.priority
        ORDER BY next_run_after, id LIMIT 1
    ) AS at
    FROM waiting CROSS JOIN generate_series(0, 9) AS priorities (priority)
    WHERE waiting.queue NOT IN (SELECT name FROM outlast.queues WHERE paused)
    UNION ALL
    SELECT (
        SELECT next_run_after FROM outlast.task_queue AS task
        WHERE status = 'QUEUED' AND suspect AND task.queue = suspects.queue
        ORDER BY next_run_after, id LIMIT 1
    )
    FROM suspects WHERE suspects.queue NOT IN (SELECT name FROM outlast.queues WHERE paused)
),
known AS MATERIALIZED (
    SELECT resource, before, state, reason, updated_at, until FROM outlast.breakers
    WHERE CASE
        WHEN is_worker THEN process IN (SELECT id FROM outlast.workers)
        ELSE updated_at >= now() - make_interval(secs => %(silent)s)
    END
),
changes AS (
    (
        SELECT first_seen AS at, 'group' AS kind, fingerprint AS subject, task_type AS name, '' AS before,
            error_category AS after, error_message AS text
        FROM outlast.failure_groups
        WHERE first_seen > now() - interval '1 hour' ORDER BY first_seen DESC LIMIT %(changes)s
    )
    UNION ALL
    (
        SELECT polls.at, 'source', polls.source_id::text, coalesce(nullif(source.name, ''), source.url, ''),
            coalesce(polls.before, ''), polls.after, coalesce(polls.error, '')
        FROM (
            SELECT * FROM outlast.source_polls
            WHERE after IS NOT NULL AND at > now() - interval '1 hour' ORDER BY at DESC LIMIT %(changes)s
        ) AS polls
        LEFT JOIN outlast.sources AS source ON source.id = polls.source_id
    )
    UNION ALL
    (
        SELECT ended_at, 'run', id, job, '', state || coalesce(' ' || exit_code, ''), ''
        FROM outlast.job_runs
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
        FROM outlast.workers WHERE started_at > now() - interval '1 hour' ORDER BY started_at DESC LIMIT %(changes)s
    )
)
SELECT json_build_object(
    'at', extract(epoch FROM now()),
    'totals', (SELECT coalesce(json_agg(json_build_array(event, n)), '[]') FROM ever),
    'running', (SELECT count(*) FROM outlast.task_queue WHERE status = 'RUNNING'),
    'parked', (SELECT count(*) FROM outlast.task_queue WHERE status = 'PARKED'),
    'flow', (SELECT coalesce(json_agg(json_build_array(begin, event, category, n)), '[]') FROM flow),
    'hours', (SELECT coalesce(json_agg(json_build_array(event, category, last, before)), '[]') FROM hours),
    'retries_waiting', (
        SELECT count(*)
        FROM (
            SELECT FROM outlast.task_queue
            WHERE status = 'QUEUED' AND retry_count > 0 ORDER BY next_run_after LIMIT %(most)s
        ) AS retries
    ),
    'oldest_ready', (SELECT extract(epoch FROM now() - min(at)) FROM due WHERE at <= now()),
    'workers', (SELECT count(*) FROM outlast.workers WHERE expires_at > now()),
    'silent_workers', (SELECT count(*) FROM outlast.workers WHERE expires_at <= now()),
    'sources', (
        SELECT coalesce(json_agg(json_build_array(state, n)), '[]')
        FROM (SELECT state, count(*) AS n FROM outlast.sources GROUP BY state) AS states
    ),
    'cooldowns', (SELECT count(*) FROM outlast.cooldowns WHERE until > now()),
    'open_breakers', (
        SELECT count(DISTINCT resource) FROM known WHERE state = 'open' AND (until IS NULL OR until > now())
    ),
    'paused_queues', (SELECT count(*) FROM outlast.queues WHERE paused),
    'alerts_waiting', (
        SELECT count(*)
        FROM (SELECT FROM outlast.alerts WHERE delivered_at IS NULL ORDER BY key, id LIMIT %(most)s) AS alerts
    ),
    'running_jobs', (SELECT count(*) FROM outlast.job_runs WHERE ended_at IS NULL),
    'newest_task', coalesce(
        (SELECT max(id) FROM outlast.task_queue),
        (SELECT last_value FROM outlast.task_queue_id_seq, ever WHERE event = 'enqueued'), 0
    ),
    'newest_dead_letter', coalesce(
        (SELECT last_value FROM outlast.dead_letter_queue_id_seq, ever WHERE event = 'failed'), 0
    ),
    'not_rolled_up', (SELECT extract(epoch FROM now() - min(at)) FROM outlast.task_flow WHERE span = 0),
    'changes', (
        SELECT coalesce(
            json_agg(json_build_array(extract(epoch FROM at), kind, subject, name, before, after, text)), '[]'
        )
        FROM changes
    )
)::text
