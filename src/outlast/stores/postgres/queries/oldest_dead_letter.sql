-- As a rule one of the very oldest is of an open group. Where many are of others, the first of each open group is looked up.
SELECT extract(epoch FROM now() - coalesce(
    (
        SELECT moved_to_dlq_at
        FROM (
            SELECT moved_to_dlq_at, fingerprint FROM outlast.dead_letter_queue ORDER BY moved_to_dlq_at LIMIT %(look)s
        ) AS letter
        JOIN outlast.failure_groups AS known USING (fingerprint)
        WHERE --open--
        ORDER BY moved_to_dlq_at LIMIT 1
    ),
    (
        SELECT min(letter.moved_to_dlq_at)
        FROM outlast.failure_groups AS known
        CROSS JOIN LATERAL (
            SELECT moved_to_dlq_at FROM outlast.dead_letter_queue
            WHERE (fingerprint, id) >= (known.fingerprint, 0)
                AND (fingerprint, id) <= (known.fingerprint, 9223372036854775807)
            ORDER BY fingerprint, id LIMIT 1
        ) AS letter
        WHERE --open--
            AND (dead > 0 OR EXISTS (
                SELECT FROM outlast.task_flow AS delta
                WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint AND event = 'failed'
            ))
    )
))::float8
