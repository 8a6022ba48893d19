SELECT id FROM outlast.job_runs
WHERE ended_at < now() - make_interval(secs => %(seconds)s)
ORDER BY ended_at
