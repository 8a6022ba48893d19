-- One that nobody holds, or one's own; the one that was taken longest ago, so that who has several goes round.
WITH chosen AS MATERIALIZED (
    SELECT id AS chosen_id FROM outlast.replays
    WHERE state = 'running' AND (lease_owner = %(owner)s OR leased_until IS NULL OR leased_until <= now())
    ORDER BY leased_until NULLS FIRST, id LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE outlast.replays
SET epoch = epoch + (lease_owner IS DISTINCT FROM %(owner)s)::integer, lease_owner = %(owner)s,
    leased_until = now() + make_interval(secs => %(lease)s)
FROM chosen WHERE id = chosen_id
RETURNING --replay--
