-- The last of a key says whether there is news, so it stays while the matter is not well. Where it is well again the last
-- goes only with or after all the others: otherwise one of them would be the last.
DELETE FROM alerts
WHERE delivered_at < :before
    AND (
        EXISTS (SELECT 1 FROM alerts AS newer WHERE newer.key = alerts.key AND newer.id > alerts.id)
        OR kind = 'recovered' AND NOT EXISTS (
            SELECT 1 FROM alerts AS older INDEXED BY alerts_key
            WHERE older.key = alerts.key AND older.id < alerts.id AND (older.delivered_at < :before) IS NOT TRUE
        )
    )
