SELECT id, job, entity, env, parent, state, total, exit_code, summary, started_at, ended_at
FROM outlast.job_runs WHERE id = %(id)s
