-- Of those that nobody else holds, the one that waits longest.
SELECT id FROM replays INDEXED BY replays_running
WHERE state = 'running' AND (lease_owner IS NULL OR lease_owner = :owner OR leased_until <= :now)
ORDER BY coalesce(leased_until, 0), id LIMIT 1
