SELECT EXISTS (
    SELECT FROM unnest(%(queues)s::text[]) AS wanted (queue)
    CROSS JOIN LATERAL (
        SELECT FROM holdfast.task_queue AS task
        WHERE task.status = 'QUEUED' AND task.suspect AND task.queue = wanted.queue AND task.next_run_after <= now()
        ORDER BY task.next_run_after LIMIT 1
    ) AS due
    WHERE wanted.queue NOT IN (SELECT name FROM holdfast.queues WHERE paused)
)
