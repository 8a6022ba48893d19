-- What waits, oldest first, unless something older of its key waits that nobody has yet: one that some channel has
-- holds nothing up, for another channel may be down for a day. What is done with is never touched.
SELECT id FROM alerts INDEXED BY alerts_waiting
WHERE delivered_at IS NULL AND due_at <= :now AND (leased_until IS NULL OR leased_until <= :now)
    AND NOT EXISTS (
        SELECT 1 FROM alerts AS older INDEXED BY alerts_waiting_by_key
        WHERE older.delivered_at IS NULL AND older.key = alerts.key AND older.id < alerts.id
            AND older.delivered_to = '[]'
    )
ORDER BY id LIMIT :limit
