SELECT status, count(*) FROM outlast.job_targets WHERE run_id = %(run_id)s GROUP BY status
