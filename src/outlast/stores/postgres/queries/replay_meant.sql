-- How many of the dead letters that a walk looks at are meant, the least and the largest of them, and where the walk ended.
WITH walked AS MATERIALIZED (
    SELECT id, task_type, queue, error_category, reason, fingerprint, moved_to_dlq_at, error_type, error_message
    FROM outlast.dead_letter_queue
    --walk--
    LIMIT %(look)s
),
meant AS MATERIALIZED (
    SELECT id FROM walked
    --which--
    ORDER BY id DESC LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM meant), (SELECT min(id) FROM meant), (SELECT max(id) FROM meant),
    (SELECT count(*) FROM walked), (SELECT min(id) FROM walked)
