-- name: breakers
-- The states that processes report, and the orders for resources that none has reported.
WITH orders AS (
    SELECT * FROM {schema}breaker_orders WHERE until IS NULL OR until > now()
),
known AS (
    SELECT * FROM {schema}breakers
    WHERE CASE
        WHEN is_worker THEN process IN (SELECT id FROM {schema}workers)
        ELSE updated_at >= now() - %(silent)s
    END
)
SELECT resource, process, known.state, known.until, reason, orders.state AS ordered, updated_at
FROM known LEFT JOIN orders USING (resource)
UNION ALL
SELECT resource, '', state, until, '', state, ordered_at
FROM orders WHERE resource NOT IN (SELECT resource FROM known)
ORDER BY resource, process

-- name: report_breakers
-- A worker that has left meanwhile reports nothing.
INSERT INTO {schema}breakers AS known (resource, process, state, until, reason, is_worker, updated_at)
SELECT resource, %(process)s, state, now() + make_interval(secs => seconds), reason,
    %(leased)s, now()
FROM json_to_recordset(%(rows)s::json) AS given (resource text, state text, seconds float8, reason text)
WHERE NOT %(leased)s OR EXISTS (SELECT FROM {schema}workers WHERE id = %(process)s)
ORDER BY resource COLLATE "C"
ON CONFLICT (resource, process) DO UPDATE
SET before = CASE WHEN known.state = excluded.state THEN known.before ELSE known.state END, state = excluded.state,
    until = excluded.until, reason = excluded.reason, is_worker = excluded.is_worker, updated_at = excluded.updated_at

-- name: delete_breakers
-- For a process that ends: its states must not outlive it.
DELETE FROM {schema}breakers WHERE process = %(process)s

-- name: order_breaker
-- The number is larger than all before it: the largest is never deleted.
INSERT INTO {schema}breaker_orders (resource, number, state, until, ordered_at)
VALUES (
    %(resource)s, (SELECT coalesce(max(number), 0) + 1 FROM {schema}breaker_orders), %(state)s,
    now() + make_interval(secs => %(seconds)s), now()
)
ON CONFLICT (resource) DO UPDATE
SET number = excluded.number, state = excluded.state, until = excluded.until, ordered_at = excluded.ordered_at
RETURNING number

-- name: breaker_orders
-- Every process asks for the orders after the last one it has seen. Expired orders are skipped.
SELECT number, resource, state, extract(epoch FROM until - now())::float8
FROM {schema}breaker_orders
WHERE number > %(after)s AND (until IS NULL OR until > now())
ORDER BY number

-- name: lock_breaker_orders
-- Orders get their numbers one after the other, so a reader that asks for later numbers misses none.
LOCK TABLE {schema}breaker_orders IN SHARE ROW EXCLUSIVE MODE

-- name: opened_breakers
-- Every process with a breaker asks every second: one range of the primary key per resource. An opening that was
-- reported before somebody ordered the breaker closed is over, even if its process does not know yet.
SELECT DISTINCT ON (resource) resource, process, extract(epoch FROM until - now())::float8, reason
FROM {schema}breakers AS known
WHERE resource = ANY(%(resources)s) AND state = 'open' AND until > now() AND process <> %(process)s
    AND reason <> %(by_hand)s AND NOT starts_with(reason, %(elsewhere)s)
    AND NOT EXISTS (
        SELECT FROM {schema}breaker_orders AS given
        WHERE given.resource = known.resource AND given.state = 'closed' AND given.ordered_at >= known.updated_at
    )
ORDER BY resource, until DESC, process
