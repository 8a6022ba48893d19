-- Taken and begun in one step.
UPDATE task_queue
SET status = 'RUNNING', lease_epoch = lease_epoch + 1, worker_id = :worker_id, attempt = attempt + 1,
    started_at = :now, updated_at = :now, alone = :alone
WHERE id IN (SELECT value FROM json_each(:ids))
