-- Slots are counted by what really runs: nobody may have asked since it ended.
SELECT resource, rate, burst, concurrency, retries, retry_burst,
    CASE WHEN concurrency IS NOT NULL THEN (
        SELECT count(*) FROM resource_slots
        CROSS JOIN task_queue ON task_queue.id = resource_slots.task_id
        WHERE resource_slots.resource = resource_limits.resource
            AND task_queue.lease_epoch = resource_slots.epoch AND task_queue.status = 'RUNNING'
    ) END,
    tat, spread, spread_rate, slot_spread, retry_tat, retry_spread, retry_again, retry_rate, mean, asked_at
FROM resource_limits
WHERE asked_at > :since
ORDER BY resource
