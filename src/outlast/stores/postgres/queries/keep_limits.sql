-- What was decided under the lock; slots only where the number of tasks is limited.
WITH taken AS (
    INSERT INTO outlast.resource_slots AS slot (task_id, epoch, resource)
    SELECT * FROM json_to_recordset(%(slots)s::json) AS given (task_id bigint, epoch integer, resource text)
    ON CONFLICT (task_id) DO UPDATE SET epoch = excluded.epoch, resource = excluded.resource
)
UPDATE outlast.resource_limits AS known
SET rate = given.rate, burst = given.burst, concurrency = given.concurrency, retries = given.retries,
    retry_burst = given.retry_burst, tat = given.tat, spread = given.spread, spread_rate = given.spread_rate,
    slot_spread = given.slot_spread, retry_tat = given.retry_tat, retry_spread = given.retry_spread,
    retry_again = given.retry_again, retry_rate = given.retry_rate, mean = given.mean, asked_at = given.asked_at
FROM json_to_recordset(%(limits)s::json) AS given (
    resource text, rate float8, burst integer, concurrency integer, retries float8, retry_burst integer, tat float8,
    spread float8, spread_rate float8, slot_spread float8, retry_tat float8, retry_spread float8, retry_again float8,
    retry_rate float8, mean float8, asked_at float8
)
WHERE known.resource = given.resource
