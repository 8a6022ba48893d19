-- Tasks of a live status by the index of that, if there are few enough of them to be put in order; how many there are, or that
-- there are more than may be looked at, is told with every row.
WITH live AS MATERIALIZED (
    SELECT id, task_type, queue, priority, status, resource, retry_count, worker_id, last_error, next_run_after, finished_at,
        created_at
    FROM (
        --walk--
    ) AS walked
    LIMIT %(look)s + 1
)
SELECT looked, found.*
FROM (SELECT count(*) AS looked FROM live) AS whole
LEFT JOIN LATERAL (
    SELECT * FROM live
    WHERE id < %(before)s AND looked <= %(look)s
        AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
        AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
    ORDER BY id DESC LIMIT %(rows)s
) AS found ON true
ORDER BY found.id DESC
