-- Tasks of every kind, as JSON. Numbers are drawn in the order in which the tasks were given; the rows go in in the order of
-- their keys, so that two callers with the same keys wait for each other in turn and not in a circle. While a resource cools
-- down, those of its tasks that would be due now are due at the end of that. A taken key, also one taken earlier in the same batch, adds nothing; where
-- all are taken, nobody is notified.
WITH given AS MATERIALIZED (
    SELECT nextval('outlast.task_queue_id_seq') AS id, given.*
    FROM ROWS FROM (json_to_recordset(%(tasks)s::json) AS (
        task_type text, queue text, priority smallint, parameters text, delay float8, run_at float8, unique_key text,
        resource text, expires float8
    )) WITH ORDINALITY AS given (
        task_type, queue, priority, parameters, delay, run_at, unique_key, resource, expires, place
    )
),
added AS (
    INSERT INTO outlast.task_queue
        (id, task_type, queue, priority, parameters, resource, unique_key, next_run_after, expires_at, booked)
    SELECT id, task_type, queue, priority, parameters, given.resource, unique_key,
        CASE
            WHEN coalesce(to_timestamp(run_at), now() + make_interval(secs => delay)) > now()
            THEN coalesce(to_timestamp(run_at), now() + make_interval(secs => delay))
            ELSE greatest(coalesce(to_timestamp(run_at), now() + make_interval(secs => delay)), cooldowns.until)
        END,
        now() + make_interval(secs => expires), true
    FROM given LEFT JOIN outlast.cooldowns ON cooldowns.resource = given.resource
    ORDER BY task_type, unique_key, place
    ON CONFLICT (task_type, unique_key) WHERE unique_key IS NOT NULL AND status IN ('QUEUED', 'RUNNING', 'PARKED')
    DO NOTHING
    RETURNING id
),
told AS (
    INSERT INTO outlast.task_flow (event, n) SELECT 'enqueued', count(*) FROM added HAVING count(*) > 0
)
SELECT added.id, (SELECT pg_notify('outlast_' || 'outlast.task_queue'::regclass::oid, '') FROM added LIMIT 1)
FROM given LEFT JOIN added USING (id)
ORDER BY place
