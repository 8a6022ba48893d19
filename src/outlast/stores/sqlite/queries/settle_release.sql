-- Back as it was before the claim: a start that came to nothing is not counted. With a delay it is not due before.
UPDATE task_queue
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL), started_at = NULL, alone = 0, updated_at = :now,
    next_run_after = CASE WHEN :delay > 0 THEN :now + :delay ELSE next_run_after END
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
