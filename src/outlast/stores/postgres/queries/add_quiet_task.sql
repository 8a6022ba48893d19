-- The same without a word to anybody: the bell rings a moment later, for all that came together.
WITH told AS (
    INSERT INTO outlast.task_flow (event, n) VALUES ('enqueued', 1)
)
INSERT INTO outlast.task_queue (task_type, queue, priority, parameters, next_run_after, expires_at, booked)
VALUES (
    %s, %s, %s::smallint, %s,
    coalesce(to_timestamp(%s::float8), now() + make_interval(secs => %s::float8)),
    now() + make_interval(secs => %s::float8), true
)
RETURNING id
