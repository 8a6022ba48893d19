SELECT state, count(*) FROM holdfast.sources
WHERE %(profile)s::text IS NULL OR profile = %(profile)s::text
GROUP BY state
