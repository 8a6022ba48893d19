-- What processes tell, and what was ordered for a resource that none has told of.
WITH orders AS (
    SELECT * FROM outlast.breaker_orders WHERE until IS NULL OR until > now()
),
known AS (
    SELECT * FROM outlast.breakers
    WHERE CASE
        WHEN is_worker THEN process IN (SELECT id FROM outlast.workers)
        ELSE updated_at >= now() - make_interval(secs => %(silent)s)
    END
)
SELECT resource, process, known.state, known.until, reason, orders.state AS ordered, updated_at
FROM known LEFT JOIN orders USING (resource)
UNION ALL
SELECT resource, '', state, until, '', state, ordered_at
FROM orders WHERE resource NOT IN (SELECT resource FROM known)
ORDER BY resource, process
