-- max() makes SQLite take the bare columns from the newest row of each group.
SELECT fingerprint, count(*), task_type, error_type, error_category, error_message, min(moved_to_dlq_at),
    max(moved_to_dlq_at)
FROM dead_letter_queue
--which--
GROUP BY fingerprint
ORDER BY count(*) DESC, max(moved_to_dlq_at) DESC
LIMIT coalesce(:limit, -1)
