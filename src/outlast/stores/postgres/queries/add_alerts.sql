INSERT INTO outlast.alerts (key, kind, state, title, text)
SELECT key, kind, state, title, text
FROM ROWS FROM (json_to_recordset(%(alerts)s::json) AS (key text, kind text, state text, title text, text text))
    WITH ORDINALITY AS given (key, kind, state, title, text, place)
ORDER BY place
RETURNING id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at
