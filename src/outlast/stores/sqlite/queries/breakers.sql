-- What processes tell, and what was ordered for a resource that none has told of.
WITH orders AS (SELECT * FROM breaker_orders WHERE until IS NULL OR until > :now),
known AS (
    SELECT * FROM breakers WHERE CASE WHEN is_worker THEN process IN (SELECT id FROM workers) ELSE updated_at >= :heard END
)
SELECT known.resource, process, known.state, known.until, reason, orders.state, updated_at
FROM known LEFT JOIN orders ON orders.resource = known.resource
UNION ALL
SELECT resource, '', state, until, '', state, ordered_at FROM orders WHERE resource NOT IN (SELECT resource FROM known)
ORDER BY 1, 2
