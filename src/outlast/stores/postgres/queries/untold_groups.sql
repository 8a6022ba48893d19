-- Those that were told of are marked on the way, so that no look meets them again. Nobody is waited for.
WITH told AS (
    UPDATE outlast.failure_groups SET told = true
    WHERE fingerprint = ANY (ARRAY(
        SELECT fingerprint FROM outlast.failure_groups AS known
        WHERE NOT told AND EXISTS (SELECT FROM outlast.alerts WHERE key = 'group:' || known.fingerprint)
        FOR UPDATE SKIP LOCKED
    ))
)
SELECT --group--
FROM (
    SELECT * FROM outlast.failure_groups AS known
    WHERE NOT told AND NOT EXISTS (SELECT FROM outlast.alerts WHERE key = 'group:' || known.fingerprint) AND --open--
        AND (
            %(quiet)s::float8 IS NULL OR last_seen >= now() - make_interval(secs => %(quiet)s::float8) OR EXISTS (
                SELECT FROM outlast.task_flow AS delta
                WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint
                    AND event IN (--failures--) AND at >= now() - make_interval(secs => %(quiet)s::float8)
            ) OR dead + coalesce((
                SELECT sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n END)
                FROM outlast.task_flow AS delta
                WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint
            ), 0) > 0
        )
    ORDER BY first_seen, fingerprint LIMIT %(limit)s
) AS known
--recent--
ORDER BY first_seen, known.fingerprint
