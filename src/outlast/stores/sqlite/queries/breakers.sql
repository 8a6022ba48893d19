-- name: breakers
-- The states that processes report, and the orders for resources that none has reported.
WITH orders AS (SELECT * FROM breaker_orders WHERE until IS NULL OR until > :now),
known AS (
    SELECT * FROM breakers WHERE CASE WHEN is_worker THEN process IN (SELECT id FROM workers) ELSE updated_at >= :now - :silent END
)
SELECT known.resource, process, known.state, known.until, reason, orders.state, updated_at
FROM known LEFT JOIN orders ON orders.resource = known.resource
UNION ALL
SELECT resource, '', state, until, '', state, ordered_at FROM orders WHERE resource NOT IN (SELECT resource FROM known)
ORDER BY 1, 2

-- name: report_breakers
-- A worker that has left meanwhile reports nothing. Milliseconds are rounded up.
INSERT INTO breakers AS known (resource, process, state, until, reason, is_worker, updated_at)
SELECT value ->> 'resource', :process, value ->> 'state',
    :now + CAST((value ->> 'seconds') * 1000 + 0.999 AS INTEGER), value ->> 'reason', :leased, :now
FROM json_each(:rows)
WHERE NOT :leased OR EXISTS (SELECT 1 FROM workers WHERE id = :process)
ON CONFLICT (resource, process) DO UPDATE
SET before = CASE WHEN known.state = excluded.state THEN known.before ELSE known.state END, state = excluded.state,
    until = excluded.until, reason = excluded.reason, is_worker = excluded.is_worker, updated_at = excluded.updated_at

-- name: delete_breakers
-- For a process that ends: its states must not outlive it.
DELETE FROM breakers WHERE process = :process

-- name: order_breaker
-- The number is larger than all before it: the largest is never deleted.
INSERT INTO breaker_orders (resource, number, state, until, ordered_at)
VALUES (:resource, (SELECT coalesce(max(number), 0) + 1 FROM breaker_orders), :state, :until, :now)
ON CONFLICT (resource) DO UPDATE
SET number = excluded.number, state = excluded.state, until = excluded.until, ordered_at = excluded.ordered_at
RETURNING number

-- name: breaker_orders
-- Every process asks for the orders after the last one it has seen. Expired orders are skipped.
SELECT number, resource, state, (until - :now) / 1000.0 FROM breaker_orders
WHERE number > :after AND (until IS NULL OR until > :now) ORDER BY number

-- name: opened_breakers
-- An opening that was reported before somebody ordered the breaker closed is over, even if its process does not know
-- yet. Beside max(), SQLite takes the other columns from the row with the maximum.
SELECT resource, process, (max(until) - :now) / 1000.0, reason
FROM breakers AS known
WHERE resource IN (SELECT value FROM json_each(:resources)) AND state = 'open' AND until > :now AND process <> :process
    AND reason <> :by_hand AND substr(reason, 1, length(:elsewhere)) <> :elsewhere
    AND NOT EXISTS (
        SELECT 1 FROM breaker_orders AS given
        WHERE given.resource = known.resource AND given.state = 'closed' AND given.ordered_at >= known.updated_at
    )
GROUP BY resource
ORDER BY resource
