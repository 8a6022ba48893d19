SELECT result FROM outlast.task_results WHERE task_id = %(id)s AND expires_at > now()
