-- The oldest entry of each range; paused queues do not count.
WITH priorities (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
SELECT min(due) FROM (
    SELECT (
        SELECT next_run_after FROM task_queue INDEXED BY task_queue_ready
        WHERE status = 'QUEUED' AND suspect = 0 AND queue = wanted.value AND priority = priorities.priority
        ORDER BY next_run_after LIMIT 1
    ) AS due
    FROM json_each(:queues) AS wanted CROSS JOIN priorities
    WHERE wanted.value NOT IN (SELECT name FROM queues WHERE paused = 1)
    UNION ALL
    SELECT (
        SELECT next_run_after FROM task_queue INDEXED BY task_queue_suspects
        WHERE status = 'QUEUED' AND suspect = 1 AND queue = wanted.value
        ORDER BY next_run_after LIMIT 1
    )
    FROM json_each(:queues) AS wanted
    WHERE wanted.value NOT IN (SELECT name FROM queues WHERE paused = 1)
)
