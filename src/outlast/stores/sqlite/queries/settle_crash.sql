-- The process in which a suspect ran has died. After a wait it runs again, alone; with a reason, that was the last time.
UPDATE task_queue
SET status = CASE WHEN :reason IS NULL THEN 'QUEUED' ELSE 'FAILED' END, suspect = (:reason IS NULL), alone = 0,
    crash_count = crash_count + 1, last_error = :error, updated_at = :now,
    next_run_after = CASE WHEN :reason IS NULL THEN :now + :delay ELSE next_run_after END,
    failed_at = CASE WHEN :reason IS NULL THEN failed_at ELSE :now END
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
RETURNING attempt, worker_id, started_at, task_type
