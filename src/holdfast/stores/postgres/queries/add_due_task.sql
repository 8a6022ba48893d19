-- The same for one that is due now and never expires: the table knows the times by itself.
WITH told AS (
    INSERT INTO holdfast.task_flow (event, n) VALUES ('enqueued', 1)
)
INSERT INTO holdfast.task_queue (task_type, queue, priority, parameters, booked)
VALUES ($1, $2, $3, $4, true)
RETURNING id
