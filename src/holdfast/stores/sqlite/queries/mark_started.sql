UPDATE task_queue
SET attempt = attempt + 1, started_at = :now
FROM (SELECT value ->> 0 AS id, value ->> 1 AS epoch FROM json_each(:done)) AS begun
WHERE task_queue.id = begun.id AND task_queue.lease_epoch = begun.epoch AND task_queue.status = 'RUNNING'
    AND task_queue.started_at IS NULL
