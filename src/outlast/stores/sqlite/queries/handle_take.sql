-- Taken up for the one step that settles it in the same transaction. Nobody saw the start of one that was not claimed: the
-- report stands for it.
UPDATE task_queue
SET status = 'RUNNING',
    attempt = attempt + (status = 'QUEUED' OR started_at IS NULL),
    started_at = CASE WHEN status = 'RUNNING' THEN coalesce(started_at, :now) ELSE :now END,
    worker_id = CASE WHEN status = 'RUNNING' THEN worker_id ELSE :reporter END,
    lease_epoch = lease_epoch + (status = 'QUEUED')
WHERE id = :id AND status IN ('QUEUED', 'RUNNING') AND retry_count = :attempt - 1
    AND (:epoch IS NULL OR lease_epoch = :epoch)
    AND (NOT :unbegun OR status = 'QUEUED' OR started_at IS NULL)
RETURNING lease_epoch
