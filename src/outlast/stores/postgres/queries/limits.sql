-- Slots are counted by what really runs: nobody may have asked since it ended.
SELECT resource, rate, burst, concurrency, retries, retry_burst,
    CASE WHEN concurrency IS NOT NULL THEN (
        SELECT count(*) FROM outlast.resource_slots AS slot
        WHERE slot.resource = known.resource AND (
            SELECT task.status || '' = 'RUNNING' AND task.lease_epoch = slot.epoch
            FROM outlast.task_queue AS task WHERE task.id = slot.task_id
        )
    ) END,
    extract(epoch FROM now())::double precision,
    tat, spread, spread_rate, slot_spread, retry_tat, retry_spread, retry_again, retry_rate, mean, asked_at
FROM outlast.resource_limits AS known
WHERE asked_at > extract(epoch FROM now())::double precision - %(seconds)s
ORDER BY resource
