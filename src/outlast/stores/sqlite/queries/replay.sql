-- The same task once more, with its history and number; its attempts begin anew.
UPDATE task_queue
SET status = 'QUEUED', retry_count = 0, crash_count = 0, suspect = 0, alone = 0, replays = replays + 1,
    next_run_after = :now, deferred_at = NULL, expires_at = NULL, failed_at = NULL, updated_at = :now,
    replay_id = :replay_id, canary = :canary
WHERE id = (SELECT original_task_id FROM dead_letter_queue WHERE id = :id) AND status = 'FAILED'
