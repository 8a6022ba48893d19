SELECT (
    SELECT id FROM outlast.task_queue AS task
    WHERE task.task_type = given.task_type AND task.unique_key = given.unique_key
        AND task.status IN ('QUEUED', 'RUNNING', 'PARKED')
)
FROM ROWS FROM (json_to_recordset(%(tasks)s::json) AS (task_type text, unique_key text)) WITH ORDINALITY
    AS given (task_type, unique_key, place)
ORDER BY place
