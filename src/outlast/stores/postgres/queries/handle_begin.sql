-- The first message to come has the attempt. One that is held, but not begun, is with whoever has just sent the message. No one
-- can see to it that a suspect runs alone elsewhere; it counts as if it did, else what ends its worker would do so for ever.
-- Should whoever runs it die, it is due at once.
UPDATE outlast.task_queue
SET status = 'RUNNING', attempt = attempt + 1, started_at = now(), worker_id = %(worker_id)s, lease_epoch = lease_epoch + 1,
    alone = suspect, next_run_after = now(), updated_at = now()
WHERE id = %(id)s AND retry_count = %(attempt)s - 1 AND (status = 'QUEUED' OR (status = 'RUNNING' AND started_at IS NULL))
RETURNING lease_epoch
