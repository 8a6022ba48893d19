INSERT INTO job_runs (id, job, entity, env, parent, started_at) VALUES (:id, :job, :entity, :env, :parent, :now)
ON CONFLICT (id) DO NOTHING
