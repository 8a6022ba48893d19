 WHERE (:status IS NULL OR status = :status)
    AND (:queue IS NULL OR queue = :queue)
    AND (:task_type IS NULL OR task_type = :task_type)
    AND (:before IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit
