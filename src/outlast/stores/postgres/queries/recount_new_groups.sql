-- Groups of dead letters that have none, as the migration made them. Nobody is told of them: they are no news.
INSERT INTO outlast.failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, told)
SELECT DISTINCT ON (fingerprint) fingerprint, task_type, error_type, error_category, error_message,
    min(moved_to_dlq_at) OVER same, max(moved_to_dlq_at) OVER same, true
FROM outlast.dead_letter_queue AS letter
WHERE fingerprint <> ''
    AND NOT EXISTS (SELECT FROM outlast.failure_groups AS known WHERE known.fingerprint = letter.fingerprint)
WINDOW same AS (PARTITION BY fingerprint)
ORDER BY fingerprint, id
ON CONFLICT DO NOTHING
