-- The last of a key says whether there is news, so it stays while the matter is not well.
DELETE FROM alerts
WHERE delivered_at < :before
    AND (kind = 'recovered' OR EXISTS (SELECT 1 FROM alerts AS newer WHERE newer.key = alerts.key AND newer.id > alerts.id))
