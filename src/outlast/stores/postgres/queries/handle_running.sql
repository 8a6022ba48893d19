SELECT id, lease_epoch FROM outlast.task_queue WHERE status = 'RUNNING' AND worker_id = %(worker_id)s
