-- One task without a key or a resource, which is what most are: nothing to look up.
INSERT INTO task_queue (task_type, queue, priority, parameters, next_run_after, expires_at, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
