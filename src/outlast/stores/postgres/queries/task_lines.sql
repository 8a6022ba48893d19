-- Tasks, newest first, by their numbers and no further than told. One that does not match is passed over; the last one that was
-- looked at is returned in any case, and tells how far it went.
SELECT place, last, matches, id, task_type, queue, priority, status, resource, retry_count, worker_id, last_error,
    next_run_after, finished_at, created_at
FROM (
    SELECT row_number() OVER walk AS place, lead(id) OVER walk IS NULL AS last,
        (%(status)s::text IS NULL OR status = %(status)s::text)
            AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text) AS matches,
        walked.*
    FROM (
        SELECT id, task_type, queue, priority, status, resource, retry_count, worker_id, last_error, next_run_after,
            finished_at, created_at
        FROM outlast.task_queue
        --walk--
        LIMIT %(look)s + 1
    ) AS walked
    WINDOW walk AS (ORDER BY --order--)
) AS looked
WHERE place <= %(look)s AND matches OR place = %(look)s OR last
ORDER BY --order-- LIMIT %(rows)s
