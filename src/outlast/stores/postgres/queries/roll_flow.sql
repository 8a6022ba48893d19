-- From one span into the next, or away. Whole steps of the next one are moved: then each is one row there.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(7093010443484004352 | 'outlast.task_flow'::regclass::oid::bigint) AS alone
),
over AS (
    DELETE FROM outlast.task_flow
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM outlast.task_flow
        WHERE span = %(span)s AND (SELECT alone FROM mine) AND at >= coalesce(%(since)s::timestamptz, '-infinity')
            AND at < to_timestamp(floor((extract(epoch FROM now()) - %(age)s) / %(into)s) * %(into)s)
        ORDER BY at, id LIMIT %(batch)s
    ))
    RETURNING at, n, event, category
),
flow AS (
    INSERT INTO outlast.task_flow (span, at, event, category, n)
    SELECT %(into)s, to_timestamp(floor(extract(epoch FROM at) / %(into)s) * %(into)s) AS begin, event, category, sum(n)
    FROM over WHERE %(keep)s
    GROUP BY begin, event, category
)
SELECT count(*), max(at) FROM over
