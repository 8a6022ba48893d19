SELECT status, count(*) FROM job_targets WHERE run_id = :run_id GROUP BY status
