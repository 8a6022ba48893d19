SELECT task_type, status, retry_count, lease_epoch,
    extract(epoch FROM expires_at - now())::float8,
    coalesce(extract(epoch FROM now() - deferred_at), 0)::float8,
    canary
FROM outlast.task_queue
WHERE id = %(id)s
