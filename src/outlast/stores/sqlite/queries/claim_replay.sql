-- The epoch tells holders apart, not claims.
UPDATE replays SET epoch = epoch + (lease_owner IS NOT :owner), lease_owner = :owner, leased_until = :until WHERE id = :id
