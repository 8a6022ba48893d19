-- By number, oldest first: an index on the time of success would cost every success. The look through the table holds up no
-- writer.
SELECT id FROM task_queue
WHERE id > :after AND status IN ('DONE', 'CANCELLED', 'DISCARDED') AND finished_at < :before
ORDER BY id LIMIT :batch
