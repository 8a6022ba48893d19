SELECT id, name, host, pid, queues, concurrency, state,
    (SELECT count(*) FROM holdfast.task_queue WHERE status = 'RUNNING' AND worker_id = workers.id),
    expires_at > now(), started_at, heartbeat_at
FROM holdfast.workers ORDER BY started_at, id
