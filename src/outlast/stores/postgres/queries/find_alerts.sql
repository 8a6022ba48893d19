SELECT id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at
FROM outlast.alerts
WHERE %(waiting)s::boolean IS NULL OR (delivered_at IS NULL) = %(waiting)s::boolean
ORDER BY id DESC LIMIT %(limit)s
