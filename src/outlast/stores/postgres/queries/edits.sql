SELECT id, task_id, before, after, patch, who, reason, at
FROM outlast.payload_edits WHERE task_id = %(task_id)s ORDER BY task_id, id
