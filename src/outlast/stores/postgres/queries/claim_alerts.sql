-- Of each key the oldest that nobody has yet stands for those behind it: while it waits or is in somebody's hands, so
-- do they. One that some channel has holds nothing up: another channel may be down for a day.
WITH unsent AS MATERIALIZED (
    SELECT key AS unsent_key, min(id) AS unsent_id FROM outlast.alerts
    WHERE delivered_at IS NULL AND delivered_to = '{}' GROUP BY key
),
chosen AS MATERIALIZED (
    SELECT id AS chosen_id
    FROM outlast.alerts LEFT JOIN unsent ON unsent_key = key
    WHERE delivered_at IS NULL AND due_at <= now() AND (leased_until IS NULL OR leased_until <= now())
        AND (unsent_id IS NULL OR id <= unsent_id)
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE OF alerts SKIP LOCKED
),
taken AS (
    UPDATE outlast.alerts
    SET epoch = epoch + 1, deliveries = deliveries + 1, leased_until = now() + make_interval(secs => %(lease)s)
    FROM chosen
    WHERE chosen_id BETWEEN 1 AND 9223372036854775807 AND id = chosen_id
    RETURNING id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at
)
SELECT * FROM taken ORDER BY id
