-- Locked in the order of their numbers first. The epoch is the fence; what is done with stays so.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(results)s::json)
        AS given (id bigint, epoch bigint, delivered_to text[], again float8, error text)
),
held AS MATERIALIZED (
    SELECT alerts.id AS held_id, given.delivered_to, given.again, given.error
    FROM given JOIN outlast.alerts ON alerts.id = given.id
    WHERE given.id BETWEEN 1 AND 9223372036854775807 AND alerts.epoch = given.epoch AND alerts.delivered_at IS NULL
    ORDER BY alerts.id
    FOR UPDATE OF alerts
)
UPDATE outlast.alerts AS alert
SET delivered_to = held.delivered_to, last_error = held.error, leased_until = NULL,
    delivered_at = CASE WHEN held.again IS NULL THEN now() END,
    due_at = CASE WHEN held.again IS NULL THEN alert.due_at ELSE now() + make_interval(secs => held.again) END
FROM held
WHERE held_id BETWEEN 1 AND 9223372036854775807 AND alert.id = held_id
