SELECT task_type, status, retry_count, lease_epoch,
    CASE WHEN expires_at IS NOT NULL THEN (expires_at - :now) / 1000.0 END,
    CASE WHEN deferred_at IS NULL THEN 0.0 ELSE (:now - deferred_at) / 1000.0 END,
    canary
FROM task_queue
WHERE id = :id
