-- Whoever decides what is told of a matter is alone with it. Keys share a few locks, for the server has room for some
-- thousands in all; they are taken in one order.
WITH locks AS MATERIALIZED (
    SELECT DISTINCT (hashtextextended(key, 0) & 63)::integer AS number FROM unnest(%(keys)s::text[]) AS key ORDER BY number
)
SELECT pg_advisory_xact_lock('outlast.alerts'::regclass::oid::integer, number) FROM locks
