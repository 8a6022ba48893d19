-- Keys that begin so have an index of their own, over those too that are over.
SELECT id FROM outlast.task_queue
WHERE unique_key = %(unique_key)s AND unique_key LIKE 'celery:%%' AND task_type = %(task_type)s
ORDER BY id DESC LIMIT 1
