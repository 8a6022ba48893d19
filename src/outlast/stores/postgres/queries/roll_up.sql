-- Deltas whose ten seconds are over, a batch at a time: into the flow, into what was ever, and into the groups of failures.
-- One process at a time, and nobody waits: who does not get the lock has nothing to do. Whoever got it a moment after another
-- sees rows that are gone already; they are passed over, and what the other has added is added to. A batch begins where the
-- last one ended: what is deleted and not vacuumed yet is not read again for each.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(7093010443484004352 | 'outlast.task_flow'::regclass::oid::bigint) AS alone
),
over AS (
    DELETE FROM outlast.task_flow
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM outlast.task_flow
        WHERE span = 0 AND at < to_timestamp(floor((extract(epoch FROM now()) - 10) / 10) * 10) AND (SELECT alone FROM mine)
            AND at >= coalesce(%(since)s::timestamptz, '-infinity')
        ORDER BY at, id LIMIT %(batch)s
    ))
    RETURNING at, n, event, task_type, category, fingerprint
),
steps AS MATERIALIZED (
    SELECT to_timestamp(floor(extract(epoch FROM at) / 10) * 10) AS begin, event, task_type, category, fingerprint,
        sum(n)::bigint AS n, max(at) AS seen, event IN (--failures--) AS is_failure
    FROM over GROUP BY 1, 2, 3, 4, 5
),
flow AS (
    INSERT INTO outlast.task_flow (span, at, event, category, n)
    SELECT 10, begin, event, category, sum(n) FROM steps GROUP BY begin, event, category
),
ever AS (
    INSERT INTO outlast.task_flow AS known (span, at, event, task_type, category, n)
    SELECT -1, to_timestamp(0), event, task_type, category, sum(n) FROM steps GROUP BY event, task_type, category
    ON CONFLICT (event, task_type, category) WHERE span = -1 DO UPDATE SET n = known.n + excluded.n
),
causes AS (
    INSERT INTO outlast.failure_flow AS known (span, at, fingerprint, event, n)
    SELECT 10, begin, fingerprint, event, sum(n) FROM steps WHERE is_failure AND fingerprint <> ''
    GROUP BY begin, fingerprint, event
    ON CONFLICT (fingerprint, span, at, event) DO UPDATE SET n = known.n + excluded.n
),
groups AS (
    UPDATE outlast.failure_groups AS known
    SET failures = known.failures + more.failures, dead = known.dead + more.dead,
        last_seen = greatest(known.last_seen, more.seen)
    FROM (
        SELECT fingerprint, coalesce(sum(n) FILTER (WHERE is_failure), 0) AS failures,
            sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS dead,
            max(seen) FILTER (WHERE is_failure) AS seen
        FROM steps WHERE fingerprint <> '' GROUP BY fingerprint
    ) AS more
    WHERE known.fingerprint = more.fingerprint
)
SELECT count(*), max(at) FROM over
