SELECT id, lease_epoch FROM holdfast.task_queue WHERE status = 'RUNNING' AND worker_id = %(worker_id)s
