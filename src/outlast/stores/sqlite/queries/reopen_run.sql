UPDATE job_runs SET state = 'running', total = 0, exit_code = NULL, summary = NULL, ended_at = NULL WHERE id = :id
