-- Each time from the run in which it is left to do, which is the smaller part, to its row in the other one.
SELECT
    count(*) FILTER (WHERE other = 'success' AND NOT is_after) AS fixed,
    count(*) FILTER (WHERE other = 'success' AND is_after) AS broken,
    count(*) FILTER (WHERE other IN ('failed', 'deferred') AND NOT is_after) AS still
FROM (
    SELECT false AS is_after, later.status AS other
    FROM outlast.job_targets AS first JOIN outlast.job_targets AS later USING (source_id)
    WHERE first.run_id = %(before)s AND first.status IN ('failed', 'deferred') AND later.run_id = %(after)s
    UNION ALL
    SELECT true, first.status
    FROM outlast.job_targets AS later JOIN outlast.job_targets AS first USING (source_id)
    WHERE later.run_id = %(after)s AND later.status IN ('failed', 'deferred') AND first.run_id = %(before)s
) AS both_have
