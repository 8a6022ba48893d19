INSERT INTO outlast.periodic (name, next_run_at)
SELECT name, now() + make_interval(secs => seconds)
FROM unnest(%(names)s::text[], %(seconds)s::float8[]) AS given (name, seconds)
ORDER BY name
ON CONFLICT DO NOTHING
