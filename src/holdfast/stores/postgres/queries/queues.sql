SELECT name, bool_or(paused), sum(ready)::bigint, sum(scheduled)::bigint, sum(running)::bigint, sum(parked)::bigint
FROM (
    SELECT name, paused, 0 AS ready, 0 AS scheduled, 0 AS running, 0 AS parked FROM holdfast.queues
    UNION ALL
    SELECT queue, false, count(*) FILTER (WHERE status = 'QUEUED' AND next_run_after <= now()),
        count(*) FILTER (WHERE status = 'QUEUED' AND next_run_after > now()), count(*) FILTER (WHERE status = 'RUNNING'),
        count(*) FILTER (WHERE status = 'PARKED')
    FROM holdfast.task_queue WHERE status IN ('QUEUED', 'RUNNING', 'PARKED') GROUP BY queue
) AS every
GROUP BY name ORDER BY name
