-- What waits for the end of the cooldown exactly was moved by it; what was put off until about then met what began it.
-- What waits for another time has its own reason.
WITH ended AS (
    DELETE FROM outlast.cooldowns WHERE resource = %(resource)s RETURNING resource, until
),
chosen AS MATERIALIZED (
    SELECT task.id
    FROM ended JOIN outlast.task_queue AS task ON task.resource = ended.resource
    WHERE task.status = 'QUEUED' AND task.next_run_after > now()
        AND task.next_run_after <= ended.until + make_interval(secs => %(late)s)
        AND (task.deferred_at IS NOT NULL OR task.next_run_after = ended.until)
    ORDER BY task.id
    FOR UPDATE OF task
)
UPDATE outlast.task_queue AS task SET next_run_after = now() FROM chosen WHERE task.id = chosen.id
