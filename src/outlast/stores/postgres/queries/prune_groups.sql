-- Groups that have no dead letters, that nobody has seen for long and that nobody wrote about; and that they were told of, so
-- that one who comes back is told of again.
WITH old AS MATERIALIZED (
    SELECT fingerprint FROM outlast.failure_groups AS known
    WHERE last_seen < now() - make_interval(secs => %(seconds)s) AND dead <= 0 AND note = ''
        AND NOT EXISTS (
            SELECT FROM outlast.task_flow AS delta
            WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint
        )
    ORDER BY last_seen LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
),
alerts AS (
    DELETE FROM outlast.alerts AS alert USING old
    WHERE alert.key IN ('group:' || old.fingerprint, 'growth:' || old.fingerprint) AND delivered_at IS NOT NULL
)
DELETE FROM outlast.failure_groups AS known USING old WHERE known.fingerprint = old.fingerprint
