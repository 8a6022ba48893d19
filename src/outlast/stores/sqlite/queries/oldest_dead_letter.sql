-- From one group that has dead letters to the next, however many each has; the first of each is its oldest.
WITH RECURSIVE causes (cause) AS (
    VALUES ('')
    UNION ALL
    SELECT (
        SELECT min(fingerprint) FROM dead_letter_queue INDEXED BY dead_letter_queue_fingerprint WHERE fingerprint > cause
    )
    FROM causes WHERE cause IS NOT NULL
)
SELECT min((
    SELECT moved_to_dlq_at FROM dead_letter_queue INDEXED BY dead_letter_queue_fingerprint
    WHERE dead_letter_queue.fingerprint = causes.cause ORDER BY id LIMIT 1
))
FROM causes CROSS JOIN failure_groups ON failure_groups.fingerprint = causes.cause
LEFT JOIN (--fresh--) AS fresh ON fresh.cause = failure_groups.fingerprint
WHERE coalesce(snoozed_until, 0) <= :now
    AND (acknowledged_at IS NULL OR max(failure_groups.last_seen, coalesce(fresh.last_seen, 0)) > acknowledged_at)
