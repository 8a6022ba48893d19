-- part: state_columns
tat, spread, spread_rate, slot_spread, retry_tat, retry_spread, retry_again, retry_rate, mean, asked_at

-- part: limit_columns
resource, rate, burst, concurrency, retries, retry_burst, {state_columns}

-- name: limits
-- Slots are counted by tasks that really run: nobody may have asked since a task ended.
SELECT resource, rate, burst, concurrency, retries, retry_burst,
    CASE WHEN concurrency IS NOT NULL THEN (
        SELECT count(*) FROM {schema}resource_slots AS slot
        WHERE slot.resource = known.resource AND (
            SELECT task.status || '' = 'RUNNING' AND task.lease_epoch = slot.epoch
            FROM {schema}task_queue AS task WHERE task.id = slot.task_id
        )
    ) END,
    extract(epoch FROM now())::double precision, {state_columns}
FROM {schema}resource_limits AS known
WHERE asked_at > extract(epoch FROM now())::double precision - %(seconds)s
ORDER BY resource

-- name: lock_limits
-- Locked in order of name, which prevents deadlocks. The timeouts are set for this transaction, before the first row is
-- locked.
WITH timeouts AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(wait)s, true), set_config('idle_in_transaction_session_timeout', %(silence)s, true)
)
SELECT resource, {state_columns}
FROM timeouts CROSS JOIN {schema}resource_limits AS known
WHERE resource = ANY (%(resources)s::text[])
ORDER BY resource
FOR UPDATE OF known

-- name: add_limits
-- Creates the rows to lock for resources nobody has asked for yet.
INSERT INTO {schema}resource_limits
    (resource, tat, spread, slot_spread, retry_tat, retry_spread, retry_again, mean, asked_at, burst, retry_burst)
SELECT resource, 0, 0, 0, 0, 0, 0, %(mean)s, 0, 1, 1
FROM unnest(%(resources)s::text[]) AS resource
ORDER BY resource
ON CONFLICT DO NOTHING

-- name: live_slots
-- Runs after the lock, so it sees what others took and the current time. Deletes slots whose claim no longer runs.
WITH live AS MATERIALIZED (
    SELECT slot.task_id, slot.epoch, slot.resource,
        (
            SELECT task.status || '' = 'RUNNING' AND task.lease_epoch = slot.epoch
            FROM {schema}task_queue AS task WHERE task.id = slot.task_id
        ) IS TRUE AS runs
    FROM {schema}resource_slots AS slot
    WHERE slot.resource = ANY (%(resources)s::text[])
),
gone AS (
    DELETE FROM {schema}resource_slots AS slot USING live WHERE slot.task_id = live.task_id AND NOT live.runs
)
SELECT extract(epoch FROM clock_timestamp())::double precision, live.task_id, live.epoch, live.resource
FROM (SELECT) AS one LEFT JOIN live ON live.runs

-- name: save_limits
-- Slots only for resources that limit concurrency. The rows exist and are locked: ON CONFLICT finds them by the primary
-- key, however large the table has grown.
WITH taken AS (
    INSERT INTO {schema}resource_slots AS slot (task_id, epoch, resource)
    SELECT * FROM json_to_recordset(%(slots)s::json) AS given (task_id bigint, epoch integer, resource text)
    ON CONFLICT (task_id) DO UPDATE SET epoch = excluded.epoch, resource = excluded.resource
)
INSERT INTO {schema}resource_limits ({limit_columns})
SELECT {limit_columns}
FROM json_to_recordset(%(limits)s::json) AS given (
    resource text, rate float8, burst integer, concurrency integer, retries float8, retry_burst integer, tat float8,
    spread float8, spread_rate float8, slot_spread float8, retry_tat float8, retry_spread float8, retry_again float8,
    retry_rate float8, mean float8, asked_at float8
)
ON CONFLICT (resource) DO UPDATE
SET rate = excluded.rate, burst = excluded.burst, concurrency = excluded.concurrency, retries = excluded.retries,
    retry_burst = excluded.retry_burst, tat = excluded.tat, spread = excluded.spread,
    spread_rate = excluded.spread_rate, slot_spread = excluded.slot_spread, retry_tat = excluded.retry_tat,
    retry_spread = excluded.retry_spread, retry_again = excluded.retry_again, retry_rate = excluded.retry_rate,
    mean = excluded.mean, asked_at = excluded.asked_at
