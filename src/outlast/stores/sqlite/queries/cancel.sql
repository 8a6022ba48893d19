-- What runs is left to run: nobody can stop a thread.
UPDATE task_queue SET status = 'CANCELLED', finished_at = :now, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('QUEUED', 'PARKED')
RETURNING id
