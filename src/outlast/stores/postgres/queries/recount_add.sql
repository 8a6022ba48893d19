INSERT INTO outlast.task_flow AS known (span, at, event, task_type, category, n)
SELECT -1, to_timestamp(0), event, task_type, category, n
FROM json_to_recordset(%(rows)s::json) AS given (event text, task_type text, category text, n bigint)
ON CONFLICT (event, task_type, category) WHERE span = -1 DO UPDATE SET n = known.n + excluded.n
