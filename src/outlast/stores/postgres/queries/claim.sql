-- name: settle_and_claim
-- Settles successes, marks starts and claims in one statement: one round trip and one commit. `worker` locks the
-- worker's row first, so the worker cannot be deleted meanwhile; heartbeats pass. Without the row nothing happens.
-- `request` hides the values from the planner, so one generic plan stays good. `BETWEEN 1 AND …` is always true: it
-- makes the planner expect one row, and `status || ''` keeps it off the index of running tasks, so it looks ids up by
-- the primary key. The claim reads one range of task_queue_ready per priority and queue. The inner LIMIT (1000, see
-- the Python caller) prevents a sort.
WITH worker AS MATERIALIZED (
    SELECT FROM {schema}workers WHERE id = %(worker_id)s FOR KEY SHARE
),
request AS MATERIALIZED (
    SELECT %(done)s::bigint[] AS done, %(done_epochs)s::integer[] AS done_epochs,
        %(starts)s::bigint[] AS starts, %(start_epochs)s::integer[] AS start_epochs,
        %(queues)s::text[] AS queues, %(most)s::bigint AS most, %(start)s::bigint AS start
),
settled AS (
    UPDATE {schema}task_queue AS task
    SET status = 'DONE', finished_at = now(), updated_at = now(), suspect = false, alone = false
    FROM unnest((SELECT done FROM request), (SELECT done_epochs FROM request)) AS given (id, epoch)
    WHERE given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
        AND EXISTS (SELECT FROM worker)
    RETURNING 1
),
counted AS (
    INSERT INTO {schema}task_flow (event, n) SELECT 'done', count(*) FROM settled HAVING count(*) > 0
),
started AS (
    UPDATE {schema}task_queue AS task
    SET attempt = attempt + 1, started_at = now()
    FROM unnest((SELECT starts FROM request), (SELECT start_epochs FROM request)) AS given (id, epoch)
    WHERE given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
        AND task.started_at IS NULL
        AND EXISTS (SELECT FROM worker)
    RETURNING 1
),
ranges AS MATERIALIZED (
    SELECT priority, wanted.queue
    FROM generate_series(0, 9) AS priority
    CROSS JOIN unnest((SELECT queues FROM request)) WITH ORDINALITY AS wanted (queue, place)
    WHERE wanted.queue NOT IN (SELECT name FROM {schema}queues WHERE paused)
        AND EXISTS (SELECT FROM worker)
    ORDER BY priority, wanted.place
),
found AS MATERIALIZED (
    SELECT task.*
    FROM ranges
    CROSS JOIN LATERAL (
        SELECT id, lease_epoch, task_type, parameters, attempt, retry_count, resource, expires_at, deferred_at,
            canary, options
        FROM {schema}task_queue
        WHERE status = 'QUEUED' AND NOT suspect
            AND queue = ranges.queue AND priority = ranges.priority AND next_run_after <= now()
            AND (resource IS NULL OR resource NOT IN (SELECT resource FROM {schema}cooldowns WHERE until > now()))
        ORDER BY next_run_after, id
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) AS task
    LIMIT (SELECT most FROM request)
),
claimed AS MATERIALIZED (
    SELECT row_number() OVER () AS place, * FROM found
),
taken AS (
    UPDATE {schema}task_queue AS task
    SET status = 'RUNNING', lease_epoch = task.lease_epoch + 1, worker_id = %(worker_id)s, attempt = task.attempt + 1,
        started_at = now(), updated_at = now(), alone = false
    FROM claimed
    WHERE task.id = claimed.id AND claimed.id BETWEEN 1 AND 9223372036854775807
        AND claimed.place BETWEEN 1 AND (SELECT start FROM request)
),
held AS (
    UPDATE {schema}task_queue AS task
    SET status = 'RUNNING', lease_epoch = task.lease_epoch + 1, worker_id = %(worker_id)s, started_at = NULL,
        updated_at = now(), alone = false
    FROM claimed
    WHERE task.id = claimed.id AND claimed.id BETWEEN 1 AND 9223372036854775807
        AND claimed.place BETWEEN (SELECT start FROM request) + 1 AND 9223372036854775807
)
SELECT answer.*, claimed.id, claimed.lease_epoch + 1, claimed.task_type, claimed.parameters, claimed.attempt + 1,
    claimed.retry_count, claimed.resource, extract(epoch FROM claimed.expires_at - now())::double precision,
    coalesce(extract(epoch FROM now() - claimed.deferred_at), 0)::double precision,
    claimed.place <= (SELECT start FROM request), false, claimed.canary, claimed.options
FROM (
    SELECT EXISTS (SELECT FROM worker), (SELECT count(*) FROM settled) + (SELECT count(*) FROM started),
        EXISTS (
            SELECT FROM {schema}cooldowns
            CROSS JOIN LATERAL (
                SELECT FROM {schema}task_queue
                WHERE status = 'QUEUED' AND resource = cooldowns.resource AND next_run_after <= now()
                ORDER BY next_run_after LIMIT 1
            ) AS cooling
            WHERE until > now()
        )
) AS answer
LEFT JOIN claimed ON true
ORDER BY claimed.place

-- name: claim_suspect
-- A task that was running when a worker died. It starts at once and runs alone.
WITH found AS MATERIALIZED (
    SELECT task.*
    FROM unnest(%(queues)s::text[]) WITH ORDINALITY AS wanted (queue, place)
    CROSS JOIN LATERAL (
        SELECT id, lease_epoch, task_type, parameters, attempt, retry_count, resource, expires_at, deferred_at,
            canary, options, crash_count
        FROM {schema}task_queue
        WHERE status = 'QUEUED' AND suspect AND queue = wanted.queue AND next_run_after <= now()
            AND (resource IS NULL OR resource NOT IN (SELECT resource FROM {schema}cooldowns WHERE until > now()))
        ORDER BY next_run_after, id
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) AS task
    WHERE wanted.queue NOT IN (SELECT name FROM {schema}queues WHERE paused)
    LIMIT %(most)s
),
claimed AS MATERIALIZED (
    SELECT row_number() OVER () AS place, * FROM found
),
taken AS (
    UPDATE {schema}task_queue AS task
    SET status = 'RUNNING', lease_epoch = task.lease_epoch + 1, worker_id = %(worker_id)s, updated_at = now(),
        attempt = task.attempt + (claimed.place <= %(start)s)::integer, alone = claimed.place <= %(start)s,
        started_at = CASE WHEN claimed.place <= %(start)s THEN now() END
    FROM claimed
    WHERE task.id = claimed.id AND claimed.id BETWEEN 1 AND 9223372036854775807
)
SELECT id, lease_epoch + 1, task_type, parameters, attempt + 1, retry_count, resource,
    extract(epoch FROM expires_at - now())::double precision,
    coalesce(extract(epoch FROM now() - deferred_at), 0)::double precision, place <= %(start)s, true, canary,
    options, crash_count
FROM claimed
ORDER BY place

-- name: suspects_due
-- While other tasks are due, at most half of the workers run suspects. A suspect runs alone, so a worker's first task
-- tells.
WITH wanted AS MATERIALIZED (
    SELECT queue FROM unnest(%(queues)s::text[]) AS queue
    WHERE queue NOT IN (SELECT name FROM {schema}queues WHERE paused)
)
SELECT CASE
    WHEN NOT EXISTS (
        SELECT FROM wanted
        CROSS JOIN LATERAL (
            SELECT FROM {schema}task_queue AS task
            WHERE task.status = 'QUEUED' AND task.suspect AND task.queue = wanted.queue AND task.next_run_after <= now()
            ORDER BY task.next_run_after LIMIT 1
        ) AS due
    ) THEN false
    WHEN NOT EXISTS (
        SELECT FROM wanted CROSS JOIN generate_series(0, 9) AS priorities (priority)
        CROSS JOIN LATERAL (
            SELECT FROM {schema}task_queue AS task
            WHERE task.status = 'QUEUED' AND NOT task.suspect AND task.queue = wanted.queue
                AND task.priority = priorities.priority AND task.next_run_after <= now()
            ORDER BY task.next_run_after LIMIT 1
        ) AS due
    ) THEN true
    ELSE (
        SELECT count(*) FILTER (WHERE held.alone) < greatest(1, count(*) / 2)
        FROM {schema}workers
        LEFT JOIN LATERAL (
            SELECT task.alone FROM {schema}task_queue AS task
            WHERE task.status = 'RUNNING' AND task.worker_id = workers.id
            LIMIT 1
        ) AS held ON true
        WHERE workers.expires_at > now() AND workers.queues && (SELECT array_agg(queue) FROM wanted)
    )
END

-- name: next_due
-- Reads the first index entry of each queue and priority. Paused queues do not count.
WITH wanted AS MATERIALIZED (
    SELECT queue FROM unnest(%(queues)s::text[]) AS queue
    WHERE queue NOT IN (SELECT name FROM {schema}queues WHERE paused)
)
SELECT extract(epoch FROM min(due) - now())::double precision
FROM (
    SELECT (
        SELECT next_run_after FROM {schema}task_queue
        WHERE status = 'QUEUED' AND NOT suspect AND task_queue.queue = wanted.queue
            AND task_queue.priority = priorities.priority
        ORDER BY next_run_after, id LIMIT 1
    ) AS due
    FROM wanted CROSS JOIN generate_series(0, 9) AS priorities (priority)
    UNION ALL
    SELECT (
        SELECT next_run_after FROM {schema}task_queue
        WHERE status = 'QUEUED' AND suspect AND task_queue.queue = wanted.queue
        ORDER BY next_run_after, id LIMIT 1
    )
    FROM wanted
) AS times

-- name: lost_claims
-- Tasks that another worker holds now. One with our epoch that no longer runs was settled by us: only the answer got
-- lost.
SELECT given.id
FROM unnest(%(ids)s::bigint[], %(epochs)s::integer[]) WITH ORDINALITY AS given (id, epoch, place)
LEFT JOIN {schema}task_queue AS task ON task.id = given.id
WHERE task.lease_epoch IS DISTINCT FROM given.epoch
ORDER BY given.place

-- name: hold_lease
-- First in a transaction of several statements: the worker cannot be deleted before it ends. Heartbeats pass.
SELECT set_config('idle_in_transaction_session_timeout', '20s', true) FROM {schema}workers WHERE id = %(worker_id)s FOR KEY SHARE

-- name: attempt_state
-- What a task queue such as Celery asks before it runs a message.
SELECT task_type, status, retry_count, lease_epoch,
    extract(epoch FROM expires_at - now())::float8,
    coalesce(extract(epoch FROM now() - deferred_at), 0)::float8,
    canary
FROM {schema}task_queue
WHERE id = %(id)s

-- name: start_attempt
-- The first message gets the attempt. A suspect counts as running alone, although an external worker cannot guarantee
-- it: otherwise a task that kills its worker would do so forever. If the worker dies, the task is due at once.
UPDATE {schema}task_queue
SET status = 'RUNNING', attempt = attempt + 1, started_at = now(), worker_id = %(worker_id)s, lease_epoch = lease_epoch + 1,
    alone = suspect, next_run_after = now(), updated_at = now()
WHERE id = %(id)s AND retry_count = %(attempt)s - 1 AND (status = 'QUEUED' OR (status = 'RUNNING' AND started_at IS NULL))
RETURNING lease_epoch

-- name: take_attempt
-- For a report that settles the task in the same transaction. Nobody saw the start of an unclaimed task, so the report
-- marks it.
UPDATE {schema}task_queue
SET status = 'RUNNING',
    attempt = attempt + (status = 'QUEUED' OR started_at IS NULL)::integer,
    started_at = CASE WHEN status = 'RUNNING' THEN coalesce(started_at, now()) ELSE now() END,
    worker_id = CASE WHEN status = 'RUNNING' THEN worker_id ELSE %(reporter)s END,
    lease_epoch = lease_epoch + (status = 'QUEUED')::integer
WHERE id = %(id)s AND status IN ('QUEUED', 'RUNNING') AND retry_count = %(attempt)s - 1
    AND (%(epoch)s::integer IS NULL OR lease_epoch = %(epoch)s::integer)
    AND (NOT %(unbegun)s::boolean OR status = 'QUEUED' OR started_at IS NULL)
RETURNING lease_epoch

-- name: release_to_engine
-- Handed to an external broker; not due again before its message can be considered lost.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::bigint[], %(epochs)s::integer[]) AS given (id, epoch) ORDER BY id
)
UPDATE {schema}task_queue AS task
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL, alone = false,
    next_run_after = now() + make_interval(secs => %(seconds)s), updated_at = now()
FROM given
WHERE given.id BETWEEN 1 AND 9223372036854775807
    AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'

-- name: tasks_of_worker
-- What a worker of an external task queue holds. The index contains only running tasks.
SELECT id, lease_epoch FROM {schema}task_queue WHERE status = 'RUNNING' AND worker_id = %(worker_id)s

-- name: latest_by_key
-- Keys with this prefix have their own index, which includes finished tasks.
SELECT id FROM {schema}task_queue
WHERE unique_key = %(unique_key)s AND unique_key LIKE 'celery:%%' AND task_type = %(task_type)s
ORDER BY id DESC LIMIT 1
