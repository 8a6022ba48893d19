-- name: start_cooldown
-- The longer cooldown stays. Answers that ask for too long count once per cooldown, unless they answer a probe.
INSERT INTO cooldowns AS known (resource, until, reason, capped, probing)
VALUES (:resource, :now + :length, :reason, :capped, 0)
ON CONFLICT (resource) DO UPDATE
SET until = max(known.until, excluded.until),
    reason = CASE WHEN excluded.until > known.until THEN excluded.reason ELSE known.reason END,
    capped = CASE
        WHEN excluded.capped = 0 THEN 0
        WHEN known.probing OR known.until <= :now THEN known.capped + 1
        ELSE max(known.capped, 1)
    END,
    probing = 0
RETURNING capped

-- name: run_cooldown_tasks_now
-- Only tasks that wait for this cooldown become due: moved to its exact end, or deferred until shortly after it.
UPDATE task_queue SET next_run_after = :now
WHERE status = 'QUEUED' AND resource = :resource
    AND next_run_after > :now
    AND next_run_after <= (SELECT until FROM cooldowns WHERE cooldowns.resource = :resource) + :late
    AND (
        deferred_at IS NOT NULL
        OR next_run_after = (SELECT until FROM cooldowns WHERE cooldowns.resource = :resource)
    )

-- name: defer_cooling_tasks
-- Moves ready tasks of cooling resources out of the way of claims, in batches.
UPDATE task_queue
SET next_run_after = (SELECT until FROM cooldowns WHERE cooldowns.resource = task_queue.resource)
WHERE id IN (
    SELECT task_queue.id
    FROM cooldowns
    CROSS JOIN task_queue INDEXED BY task_queue_resource
    WHERE cooldowns.until > :now
        AND task_queue.status = 'QUEUED' AND task_queue.resource = cooldowns.resource
        AND task_queue.next_run_after <= :now
    LIMIT 1000
)

-- name: blocking_cooldown
-- A cooldown that runs, or that only a probe may follow.
SELECT capped FROM cooldowns WHERE resource = :resource AND (until > :now OR capped > 0)

-- name: start_probe
-- Only one caller finds the cooldown over; it changes nothing for the others.
UPDATE cooldowns SET until = :now + :hold, probing = 1 WHERE resource = :resource AND capped > 0 AND until <= :now

-- name: delete_cooldown
-- Used when somebody ends a cooldown by hand, after its tasks were made due.
DELETE FROM cooldowns WHERE resource = :resource

-- name: cooldowns
-- The list of the cooldowns that run now.
SELECT resource, until, reason, capped FROM cooldowns WHERE until > :now ORDER BY resource
