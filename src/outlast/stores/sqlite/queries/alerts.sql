-- part: new_alert_columns
id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at, NULL AS since

-- part: alert_columns
id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at,
    CASE WHEN kind = 'recovered' THEN (
        SELECT opened.created_at FROM alerts AS opened
        WHERE opened.key = alerts.key AND opened.kind = 'first' AND opened.id < alerts.id
        ORDER BY opened.id DESC LIMIT 1
    ) END AS since

-- name: add_alert
-- Returns the whole row, so the caller needs no second read. It is due at once.
INSERT INTO alerts (key, kind, state, title, text, due_at, created_at)
VALUES (:key, :kind, :state, :title, :text, :now, :now)
RETURNING {new_alert_columns}

-- part: claimable
-- Oldest first, unless an older alert of the key has reached no channel yet. One that some channel has holds nothing
-- back: another channel may be down for a day. Delivered alerts are never read.
SELECT id FROM alerts INDEXED BY alerts_waiting
WHERE delivered_at IS NULL AND due_at <= :now AND (leased_until IS NULL OR leased_until <= :now)
    AND NOT EXISTS (
        SELECT 1 FROM alerts AS older INDEXED BY alerts_waiting_by_key
        WHERE older.delivered_at IS NULL AND older.key = alerts.key AND older.id < alerts.id
            AND older.delivered_to = '[]'
    )
ORDER BY id LIMIT :limit

-- name: claimable_alerts
-- Read before the file is locked: mostly none is due.
{claimable}

-- name: claim_alerts
-- The epoch rises, so a late result of an earlier claim is refused.
UPDATE alerts SET epoch = epoch + 1, deliveries = deliveries + 1, leased_until = :now + :lease
WHERE id IN ({claimable})
RETURNING {alert_columns}

-- name: make_alerts_due
-- A lease stays, because another process is sending the alert.
UPDATE alerts INDEXED BY alerts_waiting SET due_at = :now WHERE delivered_at IS NULL AND due_at > :now

-- name: settle_alerts
-- The epoch is the fence; a delivered alert stays delivered. Without a next try the delivery is complete.
UPDATE alerts
SET delivered_to = given.value -> 'delivered_to', last_error = given.value ->> 'error', leased_until = NULL,
    due_at = coalesce(:now + CAST((given.value ->> 'again') * 1000 + 0.999 AS INTEGER), due_at),
    delivered_at = CASE WHEN given.value ->> 'again' IS NULL THEN :now END
FROM json_each(:results) AS given
WHERE alerts.id = given.value ->> 'id' AND alerts.epoch = given.value ->> 'epoch' AND delivered_at IS NULL

-- name: list_alerts
-- One statement per filter: a partial index is only used if its condition is written out.
SELECT {alert_columns} FROM alerts ORDER BY id DESC LIMIT :limit

-- name: list_waiting_alerts
-- The same for alerts that are not delivered yet.
SELECT {alert_columns} FROM alerts WHERE delivered_at IS NULL ORDER BY id DESC LIMIT :limit

-- name: list_delivered_alerts
-- The same for delivered alerts.
SELECT {alert_columns} FROM alerts WHERE delivered_at IS NOT NULL ORDER BY id DESC LIMIT :limit

-- name: last_alert_state
-- Reads only the end of the key's index. The state decides whether a new alert is news.
SELECT state FROM alerts INDEXED BY alerts_key WHERE key = :key ORDER BY id DESC LIMIT 1

-- name: last_alerts
-- Reads only the end of each key's index.
SELECT {alert_columns} FROM alerts WHERE id IN (
    SELECT (SELECT id FROM alerts INDEXED BY alerts_key WHERE key = wanted.value ORDER BY id DESC LIMIT 1)
    FROM json_each(:keys) AS wanted
)

-- name: overdue_alerts
-- Only the newest alert of each key counts, and no failure group that is snoozed or acknowledged now.
SELECT key, state, title, text FROM alerts INDEXED BY alerts_done
WHERE delivered_at <= :before AND kind <> 'recovered'
    AND NOT EXISTS (SELECT 1 FROM alerts AS newer WHERE newer.key = alerts.key AND newer.id > alerts.id)
    AND NOT EXISTS (
        SELECT 1 FROM failure_groups
        WHERE fingerprint = CASE WHEN key GLOB 'group:*' THEN substr(key, 7) WHEN key GLOB 'growth:*' THEN substr(key, 8) END
            AND (snoozed_until > :now OR acknowledged_at >= max(last_seen, coalesce((
                SELECT max(seen) FROM task_flow
                WHERE span = 0 AND task_flow.fingerprint = failure_groups.fingerprint
                    AND event NOT IN ('replayed', 'discarded')
            ), 0)))
    )
ORDER BY id
