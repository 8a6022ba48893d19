-- What others hold is passed over; that is never more than they can poll at a time.
UPDATE sources SET epoch = epoch + 1, lease_owner = :owner, leased_until = :until
WHERE id IN (
    SELECT id FROM sources INDEXED BY sources_cycle
    WHERE cycle = :cycle AND outcome IS NULL AND (leased_until IS NULL OR leased_until <= :now)
    ORDER BY id LIMIT :limit
)
