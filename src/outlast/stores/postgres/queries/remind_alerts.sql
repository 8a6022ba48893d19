-- Looked at once more, now that the matters are locked: somebody else may have reminded, or told something else.
INSERT INTO outlast.alerts (key, kind, state, title, text)
SELECT key, 'reminder', state, title, text
FROM outlast.alerts AS last
WHERE key = ANY (%(keys)s::text[]) AND delivered_at <= now() - make_interval(secs => %(after)s) AND kind <> 'recovered'
    AND NOT EXISTS (SELECT FROM outlast.alerts AS later WHERE later.key = last.key AND later.id > last.id)
ORDER BY id
RETURNING id, key, kind, state, title, text, epoch, deliveries, delivered_to, delivered_at, last_error, created_at
