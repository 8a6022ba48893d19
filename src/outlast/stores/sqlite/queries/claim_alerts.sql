UPDATE alerts SET epoch = epoch + 1, deliveries = deliveries + 1, leased_until = :until
WHERE id IN (SELECT value FROM json_each(:ids))
