-- The next dead letters that a replay means, from the oldest on, and if they are few, how far the walk has looked.
WITH found AS MATERIALIZED (
    SELECT ARRAY(
        SELECT id
        FROM (
            SELECT id, task_type, queue, error_category, reason, fingerprint, moved_to_dlq_at, error_type, error_message
            FROM outlast.dead_letter_queue
            --walk--
            LIMIT %(look)s
        ) AS walked
        --which--
        LIMIT %(limit)s
    ) AS ids
)
SELECT ids, CASE WHEN cardinality(ids) < %(limit)s THEN (
    SELECT id FROM outlast.dead_letter_queue
    --walk--
    OFFSET %(look)s - 1 LIMIT 1
) END
FROM found
