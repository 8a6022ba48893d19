-- A number larger than all before it: the largest is never deleted.
INSERT INTO breaker_orders (resource, number, state, until, ordered_at)
VALUES (:resource, (SELECT coalesce(max(number), 0) + 1 FROM breaker_orders), :state, :until, :now)
ON CONFLICT (resource) DO UPDATE
SET number = excluded.number, state = excluded.state, until = excluded.until, ordered_at = excluded.ordered_at
RETURNING number
