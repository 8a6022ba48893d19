-- Keys that begin so have an index of their own, over those too that are over.
SELECT id FROM task_queue
WHERE unique_key = :unique_key AND unique_key >= 'celery:' AND unique_key < 'celery;' AND task_type = :task_type
ORDER BY id DESC LIMIT 1
