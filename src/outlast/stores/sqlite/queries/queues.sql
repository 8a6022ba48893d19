-- By the indexes of what waits, runs or is parked: what is over is never met.
SELECT name, max(paused), sum(ready), sum(scheduled), sum(running), sum(parked) FROM (
    SELECT name, paused, 0 AS ready, 0 AS scheduled, 0 AS running, 0 AS parked FROM queues
    UNION ALL
    SELECT queue, 0, sum(next_run_after <= :now), sum(next_run_after > :now), 0, 0
    FROM task_queue INDEXED BY task_queue_ready WHERE status = 'QUEUED' AND suspect = 0 GROUP BY queue
    UNION ALL
    SELECT queue, 0, sum(next_run_after <= :now), sum(next_run_after > :now), 0, 0
    FROM task_queue INDEXED BY task_queue_suspects WHERE status = 'QUEUED' AND suspect = 1 GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, count(*), 0 FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING' GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, 0, count(*) FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED' GROUP BY queue
)
GROUP BY name ORDER BY name
