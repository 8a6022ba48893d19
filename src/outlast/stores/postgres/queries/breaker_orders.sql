SELECT number, resource, state, extract(epoch FROM until - now())::float8
FROM outlast.breaker_orders
WHERE number > %(after)s AND (until IS NULL OR until > now())
ORDER BY number
