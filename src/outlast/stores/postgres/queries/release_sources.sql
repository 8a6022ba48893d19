WITH held AS MATERIALIZED (
    SELECT id FROM outlast.sources WHERE lease_owner = %(owner)s AND outcome IS NULL ORDER BY id FOR UPDATE
)
UPDATE outlast.sources AS source SET lease_owner = NULL, leased_until = NULL
FROM held
WHERE held.id BETWEEN 1 AND 9223372036854775807 AND source.id = held.id
