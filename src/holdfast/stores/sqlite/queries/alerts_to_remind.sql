-- The newest of each key alone counts.
SELECT key, state, title, text FROM alerts INDEXED BY alerts_done
WHERE delivered_at <= :before AND kind <> 'recovered'
    AND NOT EXISTS (SELECT 1 FROM alerts AS newer WHERE newer.key = alerts.key AND newer.id > alerts.id)
ORDER BY id
