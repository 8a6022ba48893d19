SELECT state, count(*) FROM outlast.sources
WHERE %(profile)s::text IS NULL OR profile = %(profile)s::text
GROUP BY state
