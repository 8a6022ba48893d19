-- A row to lock, for what nobody has asked for yet.
INSERT INTO outlast.resource_limits
    (resource, tat, spread, slot_spread, retry_tat, retry_spread, retry_again, mean, asked_at, burst, retry_burst)
SELECT resource, 0, 0, 0, 0, 0, 0, %(mean)s, 0, 1, 1
FROM unnest(%(resources)s::text[]) AS resource
ORDER BY resource
ON CONFLICT DO NOTHING
