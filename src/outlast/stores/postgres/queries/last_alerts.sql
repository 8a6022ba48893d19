-- For each matter the end of its index alone.
SELECT last.id, last.key, last.kind, last.state, last.title, last.text, last.epoch, last.deliveries, last.delivered_to,
    last.delivered_at, last.last_error, last.created_at
FROM unnest(%(keys)s::text[]) AS wanted (key)
CROSS JOIN LATERAL (
    SELECT * FROM outlast.alerts WHERE alerts.key = wanted.key ORDER BY alerts.id DESC LIMIT 1
) AS last
