-- By number, oldest first: an index on the time of success would cost every success.
SELECT id FROM task_queue
WHERE status IN ('DONE', 'CANCELLED', 'DISCARDED') AND finished_at < :before
ORDER BY id LIMIT :batch
