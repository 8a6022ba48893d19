UPDATE outlast.job_runs
SET state = %(state)s, total = %(total)s, exit_code = %(exit_code)s, summary = %(summary)s, ended_at = now()
WHERE id = %(id)s
