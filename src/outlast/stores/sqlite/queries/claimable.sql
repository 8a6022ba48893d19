-- The loops run in the order in which they stand: priorities, then queues, then the index from its oldest entry, and they
-- end at the limit. All rows are returned as one text, in one step.
WITH priorities (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT json_group_array(json_array(
    id, lease_epoch + 1, task_type, parameters, attempt + 1, retry_count, resource,
    CASE WHEN expires_at IS NOT NULL THEN (expires_at - :now) / 1000.0 END,
    CASE WHEN deferred_at IS NULL THEN 0.0 ELSE (:now - deferred_at) / 1000.0 END,
    canary
))
FROM (
    SELECT task_queue.*
    FROM priorities
    CROSS JOIN json_each(:queues) AS wanted
    CROSS JOIN task_queue INDEXED BY task_queue_ready
    WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 0
        AND task_queue.queue = wanted.value AND task_queue.priority = priorities.priority
        AND task_queue.next_run_after <= :now
        AND (task_queue.resource IS NULL
            OR task_queue.resource NOT IN (SELECT resource FROM cooldowns WHERE until > :now))
    LIMIT :limit
)
