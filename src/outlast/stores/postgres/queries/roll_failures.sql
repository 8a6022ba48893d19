-- The same for the groups of failures.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(7093010443484004352 | 'outlast.task_flow'::regclass::oid::bigint) AS alone
),
over AS (
    DELETE FROM outlast.failure_flow
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM outlast.failure_flow
        WHERE span = %(span)s AND (SELECT alone FROM mine) AND at >= coalesce(%(since)s::timestamptz, '-infinity')
            AND at < to_timestamp(floor((extract(epoch FROM now()) - %(age)s) / %(into)s) * %(into)s)
        ORDER BY at LIMIT %(batch)s
    ))
    RETURNING at, n, fingerprint, event
),
flow AS (
    INSERT INTO outlast.failure_flow AS known (span, at, fingerprint, event, n)
    SELECT %(into)s, to_timestamp(floor(extract(epoch FROM at) / %(into)s) * %(into)s) AS begin, fingerprint, event, sum(n)
    FROM over WHERE %(keep)s
    GROUP BY begin, fingerprint, event
    ON CONFLICT (fingerprint, span, at, event) DO UPDATE SET n = known.n + excluded.n
)
SELECT count(*), max(at) FROM over
