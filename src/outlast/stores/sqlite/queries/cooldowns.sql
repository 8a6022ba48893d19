-- name: save_cooldown
-- The caller has merged the old and the new cooldown in the same transaction, so every column is overwritten.
INSERT INTO cooldowns (resource, until, reason, capped, probing) VALUES (:resource, :until, :reason, :capped, :probing)
ON CONFLICT (resource) DO UPDATE
SET until = excluded.until, reason = excluded.reason, capped = excluded.capped, probing = excluded.probing

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

-- name: get_cooldown
-- Also returns a cooldown that is over: its count of capped answers still matters.
SELECT until, reason, capped, probing FROM cooldowns WHERE resource = ?

-- name: delete_cooldown
-- Used when somebody ends a cooldown by hand, after its tasks were made due.
DELETE FROM cooldowns WHERE resource = :resource

-- name: cooldowns
-- The list of the cooldowns that run now.
SELECT resource, until, reason, capped FROM cooldowns WHERE until > :now ORDER BY resource
