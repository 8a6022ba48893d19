-- The dead letters of each group, less what its deltas will add.
UPDATE outlast.failure_groups AS known
SET dead = known.dead + lack.n, failures = greatest(known.failures, known.dead + lack.n)
FROM (
    SELECT wrong.fingerprint, coalesce(letters.n, 0) - coalesce(deltas.n, 0) - wrong.dead AS n
    FROM outlast.failure_groups AS wrong
    LEFT JOIN (
        SELECT letter.fingerprint, count(*) AS n
        FROM outlast.dead_letter_queue AS letter
        JOIN outlast.task_queue AS task ON task.id = letter.original_task_id AND task.status = 'FAILED'
        GROUP BY letter.fingerprint
    ) AS letters USING (fingerprint)
    LEFT JOIN (
        SELECT fingerprint,
            sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END)::bigint AS n
        FROM outlast.task_flow WHERE span = 0 AND fingerprint <> '' GROUP BY fingerprint
    ) AS deltas USING (fingerprint)
) AS lack
WHERE lack.fingerprint = known.fingerprint AND lack.n <> 0
