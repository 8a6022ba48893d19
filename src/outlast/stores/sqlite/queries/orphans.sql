-- Running by the books, while nobody known holds them. A crash counts for one that was running alone.
SELECT id, lease_epoch, worker_id, attempt, started_at, suspect = 1 AND alone = 1, crash_count, canary, task_type
FROM task_queue INDEXED BY task_queue_held
WHERE status = 'RUNNING' AND (worker_id IS NULL OR worker_id NOT IN (SELECT id FROM workers))
LIMIT :batch
