-- Back as it was before the claim: a start that came to nothing is not counted.
UPDATE task_queue
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL), started_at = NULL, alone = 0, updated_at = :now
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
