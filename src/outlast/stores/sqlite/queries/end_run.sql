UPDATE job_runs
SET state = :state, total = :total, exit_code = :exit_code, summary = :summary, ended_at = :now
WHERE id = :id
