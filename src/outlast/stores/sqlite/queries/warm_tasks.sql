-- What waits for the end of the cooldown exactly was moved by it; what was put off until about then met what began it.
-- What waits for another time has its own reason.
UPDATE task_queue SET next_run_after = :now
WHERE status = 'QUEUED' AND resource = :resource
    AND next_run_after > :now
    AND next_run_after <= (SELECT until FROM cooldowns WHERE cooldowns.resource = :resource) + :late
    AND (
        deferred_at IS NOT NULL
        OR next_run_after = (SELECT until FROM cooldowns WHERE cooldowns.resource = :resource)
    )
