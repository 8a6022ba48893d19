-- In the order of the index, so that it is the index that is read.
SELECT count(*)
FROM (
    SELECT FROM outlast.task_queue
    WHERE status = 'QUEUED' AND resource IS NOT NULL AND resource = %(resource)s
    ORDER BY next_run_after LIMIT %(most)s
) AS waiting
