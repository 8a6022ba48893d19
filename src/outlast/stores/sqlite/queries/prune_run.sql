DELETE FROM job_runs
WHERE id = :id AND ended_at < :before AND NOT EXISTS (SELECT 1 FROM job_targets WHERE run_id = :id)
