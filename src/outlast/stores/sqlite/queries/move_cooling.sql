-- Tasks of cooling resources out of the claims' way, a batch at a time.
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
