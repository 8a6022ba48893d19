-- A number larger than all before it: the largest is never deleted.
INSERT INTO outlast.breaker_orders (resource, number, state, until, ordered_at)
VALUES (
    %(resource)s, (SELECT coalesce(max(number), 0) + 1 FROM outlast.breaker_orders), %(state)s,
    now() + make_interval(secs => %(seconds)s), now()
)
ON CONFLICT (resource) DO UPDATE
SET number = excluded.number, state = excluded.state, until = excluded.until, ordered_at = excluded.ordered_at
RETURNING number
