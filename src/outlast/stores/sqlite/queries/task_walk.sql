-- From the newest back; whoever reads it stops.
SELECT id,
    (:status IS NULL OR status = :status)
    AND (:queue IS NULL OR queue = :queue)
    AND (:task_type IS NULL OR task_type = :task_type)
FROM task_queue WHERE id < :before ORDER BY id DESC
