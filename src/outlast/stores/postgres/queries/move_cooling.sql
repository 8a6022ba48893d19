-- Tasks of cooling resources out of the claims' way, a batch at a time. One that is locked is being claimed: left alone.
WITH chosen AS MATERIALIZED (
    SELECT task.id, cooldowns.until
    FROM outlast.cooldowns
    CROSS JOIN LATERAL (
        SELECT id FROM outlast.task_queue
        WHERE status = 'QUEUED' AND resource = cooldowns.resource AND next_run_after <= now()
        ORDER BY next_run_after LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) AS task
    WHERE cooldowns.until > now()
    LIMIT 1000
)
UPDATE outlast.task_queue AS task SET next_run_after = chosen.until FROM chosen WHERE task.id = chosen.id
