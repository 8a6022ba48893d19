WITH old AS MATERIALIZED (
    SELECT task_id FROM outlast.task_results WHERE expires_at <= now() LIMIT %(batch)s FOR UPDATE SKIP LOCKED
)
DELETE FROM outlast.task_results AS result USING old WHERE result.task_id = old.task_id
