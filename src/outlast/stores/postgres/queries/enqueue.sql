-- part: insert_one
INSERT INTO {schema}task_queue
    (task_type, queue, priority, parameters, options, resource, next_run_after, expires_at, booked)
SELECT %s, %s, %s::smallint, %s, %s, given.resource,
    CASE WHEN given.due > now() THEN given.due
        ELSE greatest(given.due, (SELECT until FROM {schema}cooldowns WHERE cooldowns.resource = given.resource)) END,
    now() + make_interval(secs => %s::float8), true
FROM (
    SELECT %s::text AS resource, coalesce(to_timestamp(%s::float8), now() + make_interval(secs => %s::float8)) AS due
) AS given

-- name: add_plain_task
-- The common case, without key: nothing to look up but the cooldown, and NOTIFY in the same statement.
WITH counted AS (
    INSERT INTO {schema}task_flow (event, n) VALUES ('enqueued', 1)
)
{insert_one}
RETURNING id, pg_notify('outlast_' || '{schema}task_queue'::regclass::oid, '')

-- name: add_task_without_notify
-- The same for bursts: one NOTIFY follows for all of them.
WITH counted AS (
    INSERT INTO {schema}task_flow (event, n) VALUES ('enqueued', 1)
)
{insert_one}
RETURNING id

-- name: add_tasks
-- Tasks of every kind, as JSON. Ids follow the given order; rows are inserted in order of their keys, which prevents
-- deadlocks. A task that would be due now waits for the end of its resource's cooldown. A taken key adds nothing and
-- notifies nobody.
WITH given AS MATERIALIZED (
    SELECT nextval('{schema}task_queue_id_seq') AS id, given.*
    FROM ROWS FROM (json_to_recordset(%(tasks)s::json) AS (
        task_type text, queue text, priority smallint, parameters text, delay float8, run_at float8, unique_key text,
        resource text, expires float8, options text
    )) WITH ORDINALITY AS given (
        task_type, queue, priority, parameters, delay, run_at, unique_key, resource, expires, options, place
    )
),
added AS (
    INSERT INTO {schema}task_queue
        (id, task_type, queue, priority, parameters, resource, unique_key, options, next_run_after, expires_at, booked)
    SELECT id, task_type, queue, priority, parameters, given.resource, unique_key, options,
        CASE
            WHEN coalesce(to_timestamp(run_at), now() + make_interval(secs => delay)) > now()
            THEN coalesce(to_timestamp(run_at), now() + make_interval(secs => delay))
            ELSE greatest(coalesce(to_timestamp(run_at), now() + make_interval(secs => delay)), cooldowns.until)
        END,
        now() + make_interval(secs => expires), true
    FROM given LEFT JOIN {schema}cooldowns ON cooldowns.resource = given.resource
    ORDER BY task_type, unique_key, place
    ON CONFLICT (task_type, unique_key) WHERE unique_key IS NOT NULL AND status IN ('QUEUED', 'RUNNING', 'PARKED')
    DO NOTHING
    RETURNING id
),
counted AS (
    INSERT INTO {schema}task_flow (event, n) SELECT 'enqueued', count(*) FROM added HAVING count(*) > 0
)
SELECT added.id, (SELECT pg_notify('outlast_' || '{schema}task_queue'::regclass::oid, '') FROM added LIMIT 1)
FROM given LEFT JOIN added USING (id)
ORDER BY place

-- name: live_by_key
-- For each task that add_tasks did not add: the task that holds its key, in the given order.
SELECT (
    SELECT id FROM {schema}task_queue AS task
    WHERE task.task_type = given.task_type AND task.unique_key = given.unique_key
        AND task.status IN ('QUEUED', 'RUNNING', 'PARKED')
)
FROM ROWS FROM (json_to_recordset(%(tasks)s::json) AS (task_type text, unique_key text)) WITH ORDINALITY
    AS given (task_type, unique_key, place)
ORDER BY place

-- name: copy_tasks
-- Many tasks that are due now: COPY is the fastest way. The ids are reserved first, because COPY returns none.
COPY {schema}task_queue (id, task_type, queue, priority, booked, options, resource, parameters) FROM STDIN

-- name: any_cooldown
-- COPY cannot let a task wait for the end of its resource's cooldown, so tasks with a resource are not copied then.
SELECT EXISTS (SELECT 1 FROM {schema}cooldowns WHERE until > now())

-- name: finish_copy
-- What COPY cannot do: count the tasks and notify workers.
WITH counted AS (
    INSERT INTO {schema}task_flow (event, n) VALUES ('enqueued', %(count)s)
)
SELECT pg_notify('outlast_' || '{schema}task_queue'::regclass::oid, '')

-- name: reserve_ids
-- Only if the range from reserve_id_range has gaps.
SELECT nextval('{schema}task_queue_id_seq') FROM generate_series(1, %(count)s)

-- name: reserve_id_range
-- Returns only the ends of the range: ids are consecutive unless somebody else reserves at the same time.
SELECT min(drawn), max(drawn)
FROM (SELECT nextval('{schema}task_queue_id_seq') AS drawn FROM generate_series(1, %(count)s)) AS numbers

-- name: notify
-- Delivered once, at commit. The oid of the table names the channel: it is the same whatever the search path.
SELECT pg_notify('outlast_' || '{schema}task_queue'::regclass::oid, '')

-- name: notify_channel
-- The same name as in notify, for LISTEN.
SELECT 'outlast_' || '{schema}task_queue'::regclass::oid

-- name: set_periodic
-- A periodic task that is already registered keeps its next run. Ordered by name, which prevents deadlocks.
INSERT INTO {schema}periodic (name, next_run_at)
SELECT name, now() + make_interval(secs => seconds::float8)
FROM json_each_text(%(waits)s::json) AS given (name, seconds)
ORDER BY name
ON CONFLICT DO NOTHING

-- name: due_periodic
-- Only tasks that this process knows; the others belong to other programs.
SELECT name, next_run_at FROM {schema}periodic
WHERE next_run_at <= now() AND NOT paused AND name = ANY (%(names)s::text[]) ORDER BY name

-- name: list_periodic
-- A pruned task leaves no status.
SELECT name, next_run_at, last_run_at, paused, last_task, status
FROM {schema}periodic LEFT JOIN {schema}task_queue ON task_queue.id = last_task
ORDER BY name

-- name: pause_periodic
-- Without seconds, the next run stays.
UPDATE {schema}periodic
SET paused = %(paused)s, next_run_at = coalesce(now() + %(wait)s::interval, next_run_at)
WHERE name = %(name)s

-- name: save_periodic_task
-- In the transaction of run_periodic.
UPDATE {schema}periodic SET last_task = %(task)s WHERE name = %(name)s

-- name: run_periodic
-- The due time is the fence: a second caller changes nothing. A run that waits for the one before it stays due.
UPDATE {schema}periodic SET next_run_at = now() + make_interval(secs => %(seconds)s), last_run_at = now()
WHERE name = %(name)s AND next_run_at = %(due)s AND NOT (%(wait)s::boolean AND EXISTS (
    SELECT 1 FROM {schema}task_queue
    WHERE task_type = %(task_type)s AND unique_key = %(unique_key)s::text AND status IN ('QUEUED', 'RUNNING', 'PARKED')
))

-- name: server_time
-- Schedules use the clock of the server, so that all workers agree.
SELECT now()
