-- A group that comes back is news.
DELETE FROM alerts
WHERE delivered_at IS NOT NULL AND key IN (
    SELECT 'group:' || value FROM json_each(:gone) UNION ALL SELECT 'growth:' || value FROM json_each(:gone)
)
