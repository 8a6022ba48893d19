-- name: start_cooldown
-- The longer cooldown stays. Answers that ask for too long count once per cooldown, unless they answer a probe.
INSERT INTO {schema}cooldowns AS known (resource, until, reason, capped)
VALUES (%(resource)s, now() + %(length)s, %(reason)s, %(capped)s)
ON CONFLICT (resource) DO UPDATE
SET until = greatest(known.until, excluded.until),
    reason = CASE WHEN excluded.until > known.until THEN excluded.reason ELSE known.reason END,
    capped = CASE
        WHEN excluded.capped = 0 THEN 0
        WHEN known.probing OR known.until <= now() THEN known.capped + 1
        ELSE greatest(known.capped, 1)
    END,
    probing = false
RETURNING capped

-- name: end_cooldown
-- Only tasks that wait for this cooldown become due: moved to its exact end, or deferred until shortly after it.
WITH ended AS (
    DELETE FROM {schema}cooldowns WHERE resource = %(resource)s RETURNING resource, until
),
chosen AS MATERIALIZED (
    SELECT task.id
    FROM ended JOIN {schema}task_queue AS task ON task.resource = ended.resource
    WHERE task.status = 'QUEUED' AND task.next_run_after > now()
        AND task.next_run_after <= ended.until + make_interval(secs => %(late)s)
        AND (task.deferred_at IS NOT NULL OR task.next_run_after = ended.until)
    ORDER BY task.id
    FOR UPDATE OF task
)
UPDATE {schema}task_queue AS task SET next_run_after = now() FROM chosen WHERE task.id = chosen.id

-- name: defer_cooling_tasks
-- Moves ready tasks of cooling resources out of the way of claims, in batches. A locked task is being claimed: skipped.
WITH chosen AS MATERIALIZED (
    SELECT task.id, cooldowns.until
    FROM {schema}cooldowns
    CROSS JOIN LATERAL (
        SELECT id FROM {schema}task_queue
        WHERE status = 'QUEUED' AND resource = cooldowns.resource AND next_run_after <= now()
        ORDER BY next_run_after LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) AS task
    WHERE cooldowns.until > now()
    LIMIT 1000
)
UPDATE {schema}task_queue AS task SET next_run_after = chosen.until FROM chosen WHERE task.id = chosen.id

-- name: blocking_cooldown
-- A cooldown that runs, or that only a probe may follow.
SELECT capped FROM {schema}cooldowns WHERE resource = %(resource)s AND (until > now() OR capped > 0)

-- name: start_probe
-- Only one caller finds the cooldown over; a second one waits for the row lock and changes nothing.
UPDATE {schema}cooldowns SET until = now() + %(hold)s, probing = true
WHERE resource = %(resource)s AND capped > 0 AND until <= now()

-- name: cooldowns
-- The list of the cooldowns that run now.
SELECT resource, until, reason, capped FROM {schema}cooldowns WHERE until > now() ORDER BY resource
