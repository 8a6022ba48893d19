-- For each key the end of its index alone.
SELECT id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at
FROM alerts WHERE id IN (
    SELECT (SELECT id FROM alerts INDEXED BY alerts_key WHERE key = wanted.value ORDER BY id DESC LIMIT 1)
    FROM json_each(:keys) AS wanted
)
