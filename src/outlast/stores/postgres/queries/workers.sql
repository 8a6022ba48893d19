SELECT id, name, host, pid, queues, concurrency, state,
    (SELECT count(*) FROM outlast.task_queue WHERE status = 'RUNNING' AND worker_id = workers.id),
    expires_at > now(), started_at, heartbeat_at
FROM outlast.workers ORDER BY started_at, id
