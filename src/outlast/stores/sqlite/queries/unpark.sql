UPDATE task_queue SET status = 'QUEUED', updated_at = :now
WHERE id IN (
    SELECT id FROM task_queue INDEXED BY task_queue_parked
    WHERE status = 'PARKED' AND task_type IN (SELECT value FROM json_each(:task_types))
    LIMIT :batch
)
