-- name: limits
-- Slots are counted by tasks that really run: nobody may have asked since a task ended.
SELECT resource, rate, burst, concurrency, retries, retry_burst,
    CASE WHEN concurrency IS NOT NULL THEN (
        SELECT count(*) FROM resource_slots
        CROSS JOIN task_queue ON task_queue.id = resource_slots.task_id
        WHERE resource_slots.resource = resource_limits.resource
            AND task_queue.lease_epoch = resource_slots.epoch AND task_queue.status = 'RUNNING'
    ) END,
    :now / 1000.0, tat, spread, spread_rate, slot_spread, retry_tat, retry_spread, retry_again, retry_rate, mean, asked_at
FROM resource_limits
WHERE asked_at > :now / 1000.0 - :seconds
ORDER BY resource

-- name: get_limits
-- The state of the rate, spread and retry limits before a request. The write transaction is the lock.
SELECT resource, tat, spread, spread_rate, slot_spread, retry_tat, retry_spread, retry_again, retry_rate, mean, asked_at
FROM resource_limits
WHERE resource IN (SELECT value FROM json_each(:resources))

-- name: save_limit
-- The whole row is replaced: settings may have changed since the last request.
INSERT OR REPLACE INTO resource_limits
    (resource, rate, burst, concurrency, retries, retry_burst, tat, spread, spread_rate, slot_spread, retry_tat,
     retry_spread, retry_again, retry_rate, mean, asked_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_stale_slots
-- Slots whose claim no longer runs.
DELETE FROM resource_slots
WHERE resource IN (SELECT value FROM json_each(:resources)) AND NOT EXISTS (
    SELECT 1 FROM task_queue
    WHERE task_queue.id = resource_slots.task_id AND task_queue.lease_epoch = resource_slots.epoch
        AND task_queue.status = 'RUNNING'
)

-- name: taken_slots
-- After delete_stale_slots, so every row is a running claim.
SELECT task_id, epoch, resource FROM resource_slots WHERE resource IN (SELECT value FROM json_each(:resources))

-- name: save_slot
-- A task has one slot; a new claim of the task replaces it.
INSERT OR REPLACE INTO resource_slots VALUES (?, ?, ?)
