-- Each status by its own index: a task that is over is never met. In the order of that index, so that it is the one that is
-- read, however many wait.
SELECT name, bool_or(paused), sum(ready)::bigint, sum(scheduled)::bigint, sum(running)::bigint, sum(parked)::bigint
FROM (
    SELECT name, paused, 0 AS ready, 0 AS scheduled, 0 AS running, 0 AS parked FROM outlast.queues
    UNION ALL
    SELECT queue, false, count(*) FILTER (WHERE next_run_after <= now()), count(*) FILTER (WHERE next_run_after > now()), 0, 0
    FROM (
        SELECT queue, next_run_after FROM outlast.task_queue WHERE status = 'QUEUED' AND NOT suspect
        ORDER BY queue, priority, next_run_after, id LIMIT 9223372036854775807
    ) AS waiting
    GROUP BY queue
    UNION ALL
    SELECT queue, false, count(*) FILTER (WHERE next_run_after <= now()), count(*) FILTER (WHERE next_run_after > now()), 0, 0
    FROM outlast.task_queue WHERE status = 'QUEUED' AND suspect GROUP BY queue
    UNION ALL
    SELECT queue, false, 0, 0, count(*), 0 FROM outlast.task_queue WHERE status = 'RUNNING' GROUP BY queue
    UNION ALL
    SELECT queue, false, 0, 0, 0, count(*) FROM outlast.task_queue WHERE status = 'PARKED' GROUP BY queue
) AS every
GROUP BY name ORDER BY name
