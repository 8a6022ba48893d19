-- All that failed in a turn, for the books, by one statement behind those that settle it. Groups that are new go in in the
-- order of their names: two who find the same ones wait for each other in turn and not in a circle.
WITH told AS (
    INSERT INTO outlast.task_flow (event, task_type, category, fingerprint, n)
    SELECT event, task_type, category, fingerprint, n
    FROM json_to_recordset(%(counts)s::json)
        AS given (event text, task_type text, category text, fingerprint text, n bigint)
)
INSERT INTO outlast.failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen)
SELECT fingerprint, task_type, error_type, error_category, error_message, now(), now()
FROM json_to_recordset(%(groups)s::json)
    AS given (fingerprint text, task_type text, error_type text, error_category text, error_message text)
ORDER BY fingerprint COLLATE "C"
ON CONFLICT DO NOTHING
