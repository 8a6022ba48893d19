-- The oldest entry of each range; paused queues do not count.
WITH wanted AS MATERIALIZED (
    SELECT queue FROM unnest(%(queues)s::text[]) AS queue
    WHERE queue NOT IN (SELECT name FROM outlast.queues WHERE paused)
)
SELECT extract(epoch FROM min(due) - now())::double precision
FROM (
    SELECT (
        SELECT next_run_after FROM outlast.task_queue
        WHERE status = 'QUEUED' AND NOT suspect AND task_queue.queue = wanted.queue
            AND task_queue.priority = priorities.priority
        ORDER BY next_run_after, id LIMIT 1
    ) AS due
    FROM wanted CROSS JOIN generate_series(0, 9) AS priorities (priority)
    UNION ALL
    SELECT (
        SELECT next_run_after FROM outlast.task_queue
        WHERE status = 'QUEUED' AND suspect AND task_queue.queue = wanted.queue
        ORDER BY next_run_after, id LIMIT 1
    )
    FROM wanted
) AS times
