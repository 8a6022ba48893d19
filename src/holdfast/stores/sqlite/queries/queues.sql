SELECT name, max(paused), sum(ready), sum(scheduled), sum(running), sum(parked) FROM (
    SELECT name, paused, 0 AS ready, 0 AS scheduled, 0 AS running, 0 AS parked FROM queues
    UNION ALL
    SELECT queue, 0, sum(status = 'QUEUED' AND next_run_after <= :now), sum(status = 'QUEUED' AND next_run_after > :now),
        sum(status = 'RUNNING'), sum(status = 'PARKED')
    FROM task_queue WHERE status IN ('QUEUED', 'RUNNING', 'PARKED') GROUP BY queue
)
GROUP BY name ORDER BY name
