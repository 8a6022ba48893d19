-- A worker's whole turn in one statement, which is one round trip and one commit: settle successes, mark starts, claim.
--
-- `me` locks the worker's row before anything else is touched, so that it cannot be struck off in between; without that
-- row nothing happens. Its lock lets heartbeats pass.
--
-- All that is asked for comes through `asked`, whose values the planner cannot see: then the plan that it keeps is as good
-- as one for each call, and it stops planning. `BETWEEN 1 AND …` holds for every number there is; it makes the planner
-- expect one row, and `status || ''` keeps it from beginning with all that runs: so it looks numbers up by the primary key,
-- even by a plan that was made while the table was empty. The statements that settle do the same.
--
-- A claim walks the ready index, a range per priority and queue, from the oldest entry on, and ends at the limit. The
-- fixed limit within keeps the planner from ever sorting what waits. Nothing waits for a lock: SKIP LOCKED. What is
-- settled is in the order of its numbers.
WITH me AS MATERIALIZED (
    SELECT FROM outlast.workers WHERE id = %(worker_id)s FOR KEY SHARE
),
asked AS MATERIALIZED (
    SELECT %(done)s::bigint[] AS done, %(done_epochs)s::integer[] AS done_epochs,
        %(begun)s::bigint[] AS begun, %(begun_epochs)s::integer[] AS begun_epochs,
        %(queues)s::text[] AS queues, %(most)s::bigint AS most, %(start)s::bigint AS start
),
settled AS (
    UPDATE outlast.task_queue AS task
    SET status = 'DONE', finished_at = now(), updated_at = now(), suspect = false, alone = false
    FROM unnest((SELECT done FROM asked), (SELECT done_epochs FROM asked)) AS given (id, epoch)
    WHERE given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
        AND EXISTS (SELECT FROM me)
    RETURNING 1
),
told AS (
    INSERT INTO outlast.task_flow (event, n) SELECT 'done', count(*) FROM settled HAVING count(*) > 0
),
started AS (
    UPDATE outlast.task_queue AS task
    SET attempt = attempt + 1, started_at = now()
    FROM unnest((SELECT begun FROM asked), (SELECT begun_epochs FROM asked)) AS given (id, epoch)
    WHERE given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
        AND task.started_at IS NULL
        AND EXISTS (SELECT FROM me)
    RETURNING 1
),
ranges AS MATERIALIZED (
    SELECT priority, wanted.queue
    FROM generate_series(0, 9) AS priority
    CROSS JOIN unnest((SELECT queues FROM asked)) WITH ORDINALITY AS wanted (queue, place)
    WHERE wanted.queue NOT IN (SELECT name FROM outlast.queues WHERE paused)
        AND EXISTS (SELECT FROM me)
    ORDER BY priority, wanted.place
),
found AS MATERIALIZED (
    SELECT task.*
    FROM ranges
    CROSS JOIN LATERAL (
        SELECT id, lease_epoch, task_type, parameters, attempt, retry_count, resource, expires_at, deferred_at,
            canary
        FROM outlast.task_queue
        WHERE status = 'QUEUED' AND NOT suspect
            AND queue = ranges.queue AND priority = ranges.priority AND next_run_after <= now()
            AND (resource IS NULL OR resource NOT IN (SELECT resource FROM outlast.cooldowns WHERE until > now()))
        ORDER BY next_run_after, id
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) AS task
    LIMIT (SELECT most FROM asked)
),
claimed AS MATERIALIZED (
    SELECT row_number() OVER () AS place, * FROM found
),
taken AS (
    UPDATE outlast.task_queue AS task
    SET status = 'RUNNING', lease_epoch = task.lease_epoch + 1, worker_id = %(worker_id)s, attempt = task.attempt + 1,
        started_at = now(), updated_at = now(), alone = false
    FROM claimed
    WHERE task.id = claimed.id AND claimed.id BETWEEN 1 AND 9223372036854775807
        AND claimed.place BETWEEN 1 AND (SELECT start FROM asked)
),
held AS (
    UPDATE outlast.task_queue AS task
    SET status = 'RUNNING', lease_epoch = task.lease_epoch + 1, worker_id = %(worker_id)s, started_at = NULL,
        updated_at = now(), alone = false
    FROM claimed
    WHERE task.id = claimed.id AND claimed.id BETWEEN 1 AND 9223372036854775807
        AND claimed.place BETWEEN (SELECT start FROM asked) + 1 AND 9223372036854775807
)
SELECT answer.*, claimed.id, claimed.lease_epoch + 1, claimed.task_type, claimed.parameters, claimed.attempt + 1,
    claimed.retry_count, claimed.resource, extract(epoch FROM claimed.expires_at - now())::double precision,
    coalesce(extract(epoch FROM now() - claimed.deferred_at), 0)::double precision,
    claimed.place <= (SELECT start FROM asked), false, claimed.canary
FROM (
    SELECT EXISTS (SELECT FROM me), (SELECT count(*) FROM settled) + (SELECT count(*) FROM started),
        EXISTS (
            SELECT FROM outlast.cooldowns
            CROSS JOIN LATERAL (
                SELECT FROM outlast.task_queue
                WHERE status = 'QUEUED' AND resource = cooldowns.resource AND next_run_after <= now()
                ORDER BY next_run_after LIMIT 1
            ) AS cooling
            WHERE until > now()
        )
) AS answer
LEFT JOIN claimed ON true
ORDER BY claimed.place
