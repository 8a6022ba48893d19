-- Where others are due, half of the workers run suspects at most: those run nothing else meanwhile, so the first task that
-- a worker holds tells. A CASE ends where it knows.
WITH wanted AS MATERIALIZED (
    SELECT queue FROM unnest(%(queues)s::text[]) AS queue
    WHERE queue NOT IN (SELECT name FROM outlast.queues WHERE paused)
)
SELECT CASE
    WHEN NOT EXISTS (
        SELECT FROM wanted
        CROSS JOIN LATERAL (
            SELECT FROM outlast.task_queue AS task
            WHERE task.status = 'QUEUED' AND task.suspect AND task.queue = wanted.queue AND task.next_run_after <= now()
            ORDER BY task.next_run_after LIMIT 1
        ) AS due
    ) THEN false
    WHEN NOT EXISTS (
        SELECT FROM wanted CROSS JOIN generate_series(0, 9) AS priorities (priority)
        CROSS JOIN LATERAL (
            SELECT FROM outlast.task_queue AS task
            WHERE task.status = 'QUEUED' AND NOT task.suspect AND task.queue = wanted.queue
                AND task.priority = priorities.priority AND task.next_run_after <= now()
            ORDER BY task.next_run_after LIMIT 1
        ) AS due
    ) THEN true
    ELSE (
        SELECT count(*) FILTER (WHERE held.alone) < greatest(1, count(*) / 2)
        FROM outlast.workers
        LEFT JOIN LATERAL (
            SELECT task.alone FROM outlast.task_queue AS task
            WHERE task.status = 'RUNNING' AND task.worker_id = workers.id
            LIMIT 1
        ) AS held ON true
        WHERE workers.expires_at > now() AND workers.queues && (SELECT array_agg(queue) FROM wanted)
    )
END
