SELECT status, count(*) FROM holdfast.job_targets WHERE run_id = %(run_id)s GROUP BY status
