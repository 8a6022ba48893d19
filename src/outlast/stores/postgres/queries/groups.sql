-- The sample of a group is its newest one.
SELECT fingerprint, count, task_type, error_type, error_category, error_message, first_seen, last_seen
FROM (
    SELECT DISTINCT ON (fingerprint)
        fingerprint, count(*) OVER same AS count, task_type, error_type, error_category, error_message,
        min(moved_to_dlq_at) OVER same AS first_seen, max(moved_to_dlq_at) OVER same AS last_seen
    FROM outlast.dead_letter_queue
    --which--
    WINDOW same AS (PARTITION BY fingerprint)
    ORDER BY fingerprint, moved_to_dlq_at DESC, id DESC
) AS causes
ORDER BY count DESC, last_seen DESC
LIMIT %(limit)s
