-- The last of a batch of tasks that are not in the books yet.
SELECT max(id) FROM (
    SELECT id FROM task_queue WHERE id > (SELECT up_to FROM counted_tasks) ORDER BY id LIMIT :batch
)
