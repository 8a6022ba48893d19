-- A batch of successes in one step, fenced by their epoch.
UPDATE task_queue
SET status = 'DONE', finished_at = :now, updated_at = :now, suspect = 0, alone = 0
WHERE id IN (SELECT value FROM json_each(:ids)) AND lease_epoch = :epoch AND status = 'RUNNING'
