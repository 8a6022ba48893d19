-- Taken, not begun: should the worker die, nothing was spent.
UPDATE task_queue
SET status = 'RUNNING', lease_epoch = lease_epoch + 1, worker_id = :worker_id, started_at = NULL, updated_at = :now,
    alone = 0
WHERE id IN (SELECT value FROM json_each(:ids))
