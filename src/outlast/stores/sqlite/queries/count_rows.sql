-- What lives stands in small indexes. The rest is in none, so that successes stay cheap: the table is walked for it, once.
SELECT
    (SELECT count(*) FROM task_queue INDEXED BY task_queue_ready WHERE status = 'QUEUED' AND suspect = 0)
    + (SELECT count(*) FROM task_queue INDEXED BY task_queue_suspects WHERE status = 'QUEUED' AND suspect = 1),
    (SELECT count(*) FROM task_queue INDEXED BY task_queue_held WHERE status = 'RUNNING'),
    (SELECT count(*) FROM task_queue INDEXED BY task_queue_parked WHERE status = 'PARKED'),
    count(*) FILTER (WHERE status = 'DONE'),
    count(*) FILTER (WHERE status = 'FAILED'),
    count(*) FILTER (WHERE status = 'CANCELLED'),
    count(*) FILTER (WHERE status = 'DISCARDED'),
    (SELECT count(*) FROM dead_letter_queue)
FROM task_queue
