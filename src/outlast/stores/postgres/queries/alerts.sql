-- part: failure_events
'retried', 'deferred', 'lost', 'failed', 'would_retry', 'would_defer', 'would_fail', 'would_abort', 'would_skip',
    'would_disable'

-- part: new_alert_columns
id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at, NULL AS since

-- part: alert_columns
id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at,
    CASE WHEN kind = 'recovered' THEN (
        SELECT opened.created_at FROM {schema}alerts AS opened
        WHERE opened.key = alerts.key AND opened.kind = 'first' AND opened.id < alerts.id
        ORDER BY opened.id DESC LIMIT 1
    ) END AS since

-- name: add_alerts
-- In the given order: ids follow it, and alerts are delivered in the order of ids.
INSERT INTO {schema}alerts (key, kind, state, title, text)
SELECT key, kind, state, title, text
FROM ROWS FROM (json_to_recordset(%(alerts)s::json) AS (key text, kind text, state text, title text, text text))
    WITH ORDINALITY AS given (key, kind, state, title, text, place)
ORDER BY place
RETURNING {new_alert_columns}

-- name: claim_alerts
-- An undelivered alert holds back later ones of its key. One that some channel has does not: another channel may be
-- down for a day.
WITH unsent AS MATERIALIZED (
    SELECT key AS unsent_key, min(id) AS unsent_id FROM {schema}alerts
    WHERE delivered_at IS NULL AND delivered_to = '{}' GROUP BY key
),
chosen AS MATERIALIZED (
    SELECT id AS chosen_id
    FROM {schema}alerts LEFT JOIN unsent ON unsent_key = key
    WHERE delivered_at IS NULL AND due_at <= now() AND (leased_until IS NULL OR leased_until <= now())
        AND (unsent_id IS NULL OR id <= unsent_id)
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE OF alerts SKIP LOCKED
),
taken AS (
    UPDATE {schema}alerts
    SET epoch = epoch + 1, deliveries = deliveries + 1, leased_until = now() + %(lease)s
    FROM chosen
    WHERE chosen_id BETWEEN 1 AND 9223372036854775807 AND id = chosen_id
    RETURNING {alert_columns}
)
SELECT * FROM taken ORDER BY id

-- name: make_alerts_due
-- A lease stays, because another process is sending the alert.
UPDATE {schema}alerts SET due_at = now() WHERE delivered_at IS NULL AND due_at > now()

-- name: settle_alerts
-- Locked in order of id first. The epoch is the fence; a delivered alert stays delivered.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(results)s::json)
        AS given (id bigint, epoch bigint, delivered_to text[], again float8, error text)
),
held AS MATERIALIZED (
    SELECT alerts.id AS held_id, given.delivered_to, given.again, given.error
    FROM given JOIN {schema}alerts ON alerts.id = given.id
    WHERE given.id BETWEEN 1 AND 9223372036854775807 AND alerts.epoch = given.epoch AND alerts.delivered_at IS NULL
    ORDER BY alerts.id
    FOR UPDATE OF alerts
)
UPDATE {schema}alerts AS alert
SET delivered_to = held.delivered_to, last_error = held.error, leased_until = NULL,
    delivered_at = CASE WHEN held.again IS NULL THEN now() END,
    due_at = CASE WHEN held.again IS NULL THEN alert.due_at ELSE now() + make_interval(secs => held.again) END
FROM held
WHERE held_id BETWEEN 1 AND 9223372036854775807 AND alert.id = held_id

-- name: list_alerts
-- One statement for all filters; it is planned for each call.
SELECT {alert_columns}
FROM {schema}alerts
WHERE %(waiting)s::boolean IS NULL OR (delivered_at IS NULL) = %(waiting)s::boolean
ORDER BY id DESC LIMIT %(limit)s

-- name: last_alerts
-- Reads only the end of each key's index.
SELECT {alert_columns} FROM {schema}alerts WHERE id IN (
    SELECT (SELECT id FROM {schema}alerts AS last WHERE last.key = wanted.key ORDER BY id DESC LIMIT 1)
    FROM unnest(%(keys)s::text[]) AS wanted (key)
)

-- name: lock_alerts
-- Only one transaction at a time decides about a key. Keys share 64 advisory locks, taken in order.
WITH locks AS MATERIALIZED (
    SELECT DISTINCT (hashtextextended(key, 0) & 63)::integer AS number FROM unnest(%(keys)s::text[]) AS key ORDER BY number
)
SELECT pg_advisory_xact_lock('{schema}alerts'::regclass::oid::integer, number) FROM locks

-- name: open_alerts
-- The last alert of each key that has not recovered.
SELECT last.key, last.state
FROM unnest(%(keys)s::text[]) AS wanted (key)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}alerts WHERE alerts.key = wanted.key ORDER BY alerts.id DESC LIMIT 1
) AS last
WHERE last.kind <> 'recovered'

-- name: overdue_alerts
-- Except for failure groups that are snoozed or acknowledged now.
SELECT key FROM {schema}alerts AS last
WHERE delivered_at <= now() - make_interval(secs => %(after)s) AND kind <> 'recovered'
    AND NOT EXISTS (SELECT FROM {schema}alerts AS later WHERE later.key = last.key AND later.id > last.id)
    AND NOT EXISTS (
        SELECT FROM {schema}failure_groups AS known
        WHERE known.fingerprint = CASE
                WHEN starts_with(key, 'group:') THEN substr(key, 7) WHEN starts_with(key, 'growth:') THEN substr(key, 8)
            END
            AND NOT ((snoozed_until IS NULL OR snoozed_until <= now())
    AND (acknowledged_at IS NULL OR last_seen > acknowledged_at OR EXISTS (
        SELECT FROM {schema}task_flow AS delta
        WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint
            AND event IN ({failure_events}) AND at > acknowledged_at
    )))
    )

-- name: remind_alerts
-- Checks again now that the keys are locked: somebody else may have sent a reminder or another alert.
INSERT INTO {schema}alerts (key, kind, state, title, text)
SELECT key, 'reminder', state, title, text
FROM {schema}alerts AS last
WHERE key = ANY (%(keys)s::text[]) AND delivered_at <= now() - make_interval(secs => %(after)s) AND kind <> 'recovered'
    AND NOT EXISTS (SELECT FROM {schema}alerts AS later WHERE later.key = last.key AND later.id > last.id)
ORDER BY id
RETURNING {new_alert_columns}
