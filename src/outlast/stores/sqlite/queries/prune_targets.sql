-- A run that somebody has taken up again meanwhile keeps what it has.
DELETE FROM job_targets
WHERE run_id = (SELECT id FROM job_runs WHERE id = :id AND ended_at < :before)
    AND source_id IN (SELECT source_id FROM job_targets WHERE run_id = :id ORDER BY source_id LIMIT :batch)
