-- Groups of dead letters that have none, as the migration made them. Nobody is told of them: they are no news. min() makes SQLite
-- take the bare columns from the first row of each.
INSERT INTO failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, told)
SELECT fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, 1
FROM (
    SELECT fingerprint, task_type, error_type, error_category, error_message, moved_to_dlq_at AS first_seen, min(id), (
        SELECT max(moved_to_dlq_at) FROM dead_letter_queue AS all_of WHERE all_of.fingerprint = letter.fingerprint
    ) AS last_seen
    FROM dead_letter_queue AS letter
    WHERE fingerprint <> '' AND fingerprint NOT IN (SELECT fingerprint FROM failure_groups)
    GROUP BY fingerprint
)
