-- One task that was running when a worker died; its start is marked at once, and it runs alone.
WITH found AS MATERIALIZED (
    SELECT task.*
    FROM unnest(%(queues)s::text[]) WITH ORDINALITY AS wanted (queue, place)
    CROSS JOIN LATERAL (
        SELECT id, lease_epoch, task_type, parameters, attempt, retry_count, resource, expires_at, deferred_at,
            canary, crash_count
        FROM outlast.task_queue
        WHERE status = 'QUEUED' AND suspect AND queue = wanted.queue AND next_run_after <= now()
            AND (resource IS NULL OR resource NOT IN (SELECT resource FROM outlast.cooldowns WHERE until > now()))
        ORDER BY next_run_after, id
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) AS task
    WHERE wanted.queue NOT IN (SELECT name FROM outlast.queues WHERE paused)
    LIMIT %(most)s
),
claimed AS MATERIALIZED (
    SELECT row_number() OVER () AS place, * FROM found
),
taken AS (
    UPDATE outlast.task_queue AS task
    SET status = 'RUNNING', lease_epoch = task.lease_epoch + 1, worker_id = %(worker_id)s, updated_at = now(),
        attempt = task.attempt + (claimed.place <= %(start)s)::integer, alone = claimed.place <= %(start)s,
        started_at = CASE WHEN claimed.place <= %(start)s THEN now() END
    FROM claimed
    WHERE task.id = claimed.id AND claimed.id BETWEEN 1 AND 9223372036854775807
)
SELECT id, lease_epoch + 1, task_type, parameters, attempt + 1, retry_count, resource,
    extract(epoch FROM expires_at - now())::double precision,
    coalesce(extract(epoch FROM now() - deferred_at), 0)::double precision, place <= %(start)s, true, canary,
    crash_count
FROM claimed
ORDER BY place
