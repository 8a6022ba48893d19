-- Out of our hands, and not due before the message for it can be taken for lost.
UPDATE task_queue
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL), started_at = NULL, alone = 0,
    next_run_after = :now + :delay, updated_at = :now
WHERE (id, lease_epoch) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:tasks)) AND status = 'RUNNING'
