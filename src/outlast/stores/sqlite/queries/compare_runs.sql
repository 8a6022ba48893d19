-- Each time from the run in which it is left to do, which is the smaller part, to its row in the other one.
SELECT
    count(*) FILTER (WHERE other = 'success' AND NOT is_after) AS fixed,
    count(*) FILTER (WHERE other = 'success' AND is_after) AS broken,
    count(*) FILTER (WHERE other IN ('failed', 'deferred') AND NOT is_after) AS still
FROM (
    SELECT 0 AS is_after, later.status AS other
    FROM job_targets AS first INDEXED BY job_targets_left
        CROSS JOIN job_targets AS later ON later.run_id = :after AND later.source_id = first.source_id
    WHERE first.run_id = :before AND first.status IN ('failed', 'deferred')
    UNION ALL
    SELECT 1, first.status
    FROM job_targets AS later INDEXED BY job_targets_left
        CROSS JOIN job_targets AS first ON first.run_id = :before AND first.source_id = later.source_id
    WHERE later.run_id = :after AND later.status IN ('failed', 'deferred')
)
