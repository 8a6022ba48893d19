-- What was told last of each matter that is not well.
SELECT last.key, last.state
FROM unnest(%(keys)s::text[]) AS wanted (key)
CROSS JOIN LATERAL (
    SELECT * FROM outlast.alerts WHERE alerts.key = wanted.key ORDER BY alerts.id DESC LIMIT 1
) AS last
WHERE last.kind <> 'recovered'
