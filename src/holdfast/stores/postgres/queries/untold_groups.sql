-- Those that were told of are marked on the way, so that no look meets them again. Nobody is waited for.
WITH told AS (
    UPDATE holdfast.failure_groups SET told = true
    WHERE fingerprint = ANY (ARRAY(
        SELECT fingerprint FROM holdfast.failure_groups AS known
        WHERE NOT told AND EXISTS (SELECT FROM holdfast.alerts WHERE key = 'group:' || known.fingerprint)
        FOR UPDATE SKIP LOCKED
    ))
)
SELECT --group--
FROM (
    SELECT * FROM holdfast.failure_groups AS known
    WHERE NOT told AND NOT EXISTS (SELECT FROM holdfast.alerts WHERE key = 'group:' || known.fingerprint) AND --open--
    ORDER BY first_seen, fingerprint LIMIT %(limit)s
) AS known
--recent--
ORDER BY first_seen, known.fingerprint
