-- One task that was running when a worker died.
SELECT json_group_array(json_array(
    id, lease_epoch + 1, task_type, parameters, attempt + 1, retry_count, resource,
    CASE WHEN expires_at IS NOT NULL THEN (expires_at - :now) / 1000.0 END,
    CASE WHEN deferred_at IS NULL THEN 0.0 ELSE (:now - deferred_at) / 1000.0 END,
    canary, crash_count
))
FROM (
    SELECT task_queue.*
    FROM json_each(:queues) AS wanted
    CROSS JOIN task_queue INDEXED BY task_queue_suspects
    WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 1
        AND task_queue.queue = wanted.value AND task_queue.next_run_after <= :now
        AND (task_queue.resource IS NULL
            OR task_queue.resource NOT IN (SELECT resource FROM cooldowns WHERE until > :now))
    LIMIT :limit
)
