UPDATE task_queue SET next_run_after = min(next_run_after, :now), updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'QUEUED'
RETURNING id
