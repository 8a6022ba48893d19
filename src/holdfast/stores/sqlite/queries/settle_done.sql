-- A batch of successes in one step, each fenced by its epoch.
UPDATE task_queue
SET status = 'DONE', finished_at = :now, updated_at = :now, suspect = 0, alone = 0
FROM (SELECT value ->> 0 AS id, value ->> 1 AS epoch FROM json_each(:done)) AS settled
WHERE task_queue.id = settled.id AND task_queue.lease_epoch = settled.epoch AND task_queue.status = 'RUNNING'
