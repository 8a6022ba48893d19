-- Those of one live status by their numbers, newest first: for where there are few.
SELECT id,
    (:queue IS NULL OR queue = :queue)
    AND (:task_type IS NULL OR task_type = :task_type)
FROM task_queue WHERE id IN (SELECT value FROM json_each(:ids)) AND id < :before ORDER BY id DESC
