UPDATE outlast.job_runs SET state = 'running', total = 0, exit_code = NULL, summary = NULL, ended_at = NULL
WHERE id = %(id)s
RETURNING id, job, entity, env, parent, state, total, exit_code, summary, started_at, ended_at
