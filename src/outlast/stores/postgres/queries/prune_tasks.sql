-- By number, oldest first, on from where the last batch ended: an index on the time of success would cost every success.
WITH old AS MATERIALIZED (
    SELECT id FROM outlast.task_queue
    WHERE id > %(after)s AND status IN ('DONE', 'CANCELLED', 'DISCARDED') AND finished_at < now() - make_interval(secs => %(seconds)s)
    ORDER BY id LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
),
history AS (
    DELETE FROM outlast.task_attempts AS attempt USING old WHERE attempt.task_id = old.id
),
edits AS (
    DELETE FROM outlast.payload_edits AS edit USING old WHERE edit.task_id = old.id
),
deleted AS (
    DELETE FROM outlast.task_queue AS task USING old WHERE task.id = old.id RETURNING task.id, task.status
),
told AS (
    INSERT INTO outlast.task_flow (event, n) SELECT 'pruned_' || lower(status), count(*) FROM deleted GROUP BY status
)
SELECT count(*), max(id) FROM deleted
