-- Looks again: one may have failed since, which only the deltas know so soon.
DELETE FROM failure_groups
WHERE fingerprint IN (SELECT value FROM json_each(:fingerprints)) AND last_seen < :before AND note = ''
    AND fingerprint NOT IN (SELECT fingerprint FROM task_flow WHERE span = 0)
    AND NOT EXISTS (
        SELECT 1 FROM dead_letter_queue INDEXED BY dead_letter_queue_fingerprint
        WHERE dead_letter_queue.fingerprint = failure_groups.fingerprint
    )
RETURNING fingerprint
