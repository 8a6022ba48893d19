-- Successes that leave a result behind.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(settlements)s::json) AS given (id bigint, epoch integer, result text, keep float8)
    ORDER BY id
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = 'DONE', finished_at = now(), updated_at = now(), suspect = false, alone = false
    FROM given
    WHERE given.id BETWEEN 1 AND 9223372036854775807
        AND task.id = given.id AND task.lease_epoch = given.epoch AND task.status || '' = 'RUNNING'
    RETURNING task.id
),
told AS (
    INSERT INTO outlast.task_flow (event, n) SELECT 'done', count(*) FROM changed HAVING count(*) > 0
),
kept AS (
    INSERT INTO outlast.task_results (task_id, result, expires_at)
    SELECT id, result, now() + make_interval(secs => keep) FROM changed JOIN given USING (id) WHERE result IS NOT NULL
    ON CONFLICT (task_id) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at
)
SELECT id, '' FROM changed
