-- Where others are due, half of the workers run suspects at most: those run nothing else meanwhile, so the first task that
-- a worker holds tells. A CASE ends where it knows.
WITH wanted (queue) AS MATERIALIZED (
    SELECT value FROM json_each(:queues) WHERE value NOT IN (SELECT name FROM queues WHERE paused = 1)
),
priorities (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT CASE
    WHEN NOT EXISTS (
        SELECT 1 FROM wanted
        CROSS JOIN task_queue INDEXED BY task_queue_suspects
        WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 1 AND task_queue.queue = wanted.queue
            AND task_queue.next_run_after <= :now
    ) THEN 0
    WHEN NOT EXISTS (
        SELECT 1 FROM wanted CROSS JOIN priorities
        CROSS JOIN task_queue INDEXED BY task_queue_ready
        WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 0 AND task_queue.queue = wanted.queue
            AND task_queue.priority = priorities.priority AND task_queue.next_run_after <= :now
    ) THEN 1
    ELSE (
        SELECT coalesce(sum((
            SELECT alone FROM task_queue INDEXED BY task_queue_held
            WHERE status = 'RUNNING' AND worker_id = workers.id
            LIMIT 1
        )), 0) < max(1, count(*) / 2)
        FROM workers
        WHERE expires_at > :now
            AND EXISTS (SELECT 1 FROM json_each(workers.queues) AS theirs WHERE theirs.value IN (SELECT queue FROM wanted))
    )
END
