SELECT id, job, entity, env, parent, state, total, exit_code, summary, started_at, ended_at
FROM outlast.job_runs
WHERE (%(job)s::text IS NULL OR job = %(job)s::text)
    AND (%(before)s::text IS NULL
        OR (started_at, id) < (SELECT started_at, id FROM outlast.job_runs WHERE id = %(before)s::text))
ORDER BY started_at DESC, id DESC LIMIT %(limit)s
