INSERT INTO outlast.job_runs (id, job, entity, env, parent)
VALUES (%(id)s, %(job)s, %(entity)s, %(env)s, %(parent)s)
ON CONFLICT (id) DO NOTHING
RETURNING id, job, entity, env, parent, state, total, exit_code, summary, started_at, ended_at
