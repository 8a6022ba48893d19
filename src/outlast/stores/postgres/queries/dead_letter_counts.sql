SELECT task_type, category, dead
FROM (
    SELECT task_type, category, sum(CASE event WHEN 'failed' THEN n ELSE -n END)::bigint AS dead
    FROM outlast.task_flow WHERE span IN (-1, 0) AND event IN ('failed', 'replayed', 'discarded')
    GROUP BY task_type, category
) AS books
WHERE dead > 0
