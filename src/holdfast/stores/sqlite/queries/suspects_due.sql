SELECT EXISTS (
    SELECT 1 FROM json_each(:queues) AS wanted
    CROSS JOIN task_queue INDEXED BY task_queue_suspects
    WHERE task_queue.status = 'QUEUED' AND task_queue.suspect = 1 AND task_queue.queue = wanted.value
        AND task_queue.next_run_after <= :now
        AND wanted.value NOT IN (SELECT name FROM queues WHERE paused = 1)
)
