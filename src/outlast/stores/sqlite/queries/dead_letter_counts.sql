-- By the books, which know of no single one.
SELECT task_type, category, sum(CASE event WHEN 'failed' THEN n ELSE -n END) AS size
FROM task_flow WHERE span IN (-1, 0) AND event IN ('failed', 'replayed', 'discarded')
GROUP BY task_type, category HAVING size > 0
