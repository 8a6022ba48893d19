SELECT id, name, host, pid, queues, concurrency, state,
    (SELECT count(*) FROM task_queue WHERE status = 'RUNNING' AND worker_id = workers.id),
    expires_at > :now, started_at, heartbeat_at
FROM workers ORDER BY started_at, id
