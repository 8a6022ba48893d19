-- By the two indexes that have them; so many at most.
SELECT id FROM (
    SELECT id FROM task_queue INDEXED BY task_queue_ready WHERE status = 'QUEUED' AND suspect = 0
    UNION ALL
    SELECT id FROM task_queue INDEXED BY task_queue_suspects WHERE status = 'QUEUED' AND suspect = 1
)
LIMIT :most
