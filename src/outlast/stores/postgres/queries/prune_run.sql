DELETE FROM outlast.job_runs AS run
WHERE run.id = %(id)s AND run.ended_at < now() - make_interval(secs => %(seconds)s)
    AND NOT EXISTS (SELECT FROM outlast.job_targets AS target WHERE target.run_id = run.id)
