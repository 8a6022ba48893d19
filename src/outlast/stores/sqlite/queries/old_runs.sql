SELECT id FROM job_runs WHERE ended_at < :before ORDER BY ended_at
