-- Groups of failures in the order of the last roll-up, along one index, on from a place in it, and no further than told. By
-- tuples of its columns: no other index has this order. A group that does not match is passed over; the last one that was
-- looked at is returned in any case, and tells how far it went. What is not rolled up yet is added to the counts.
SELECT known.place, last, matches, (extract(epoch FROM last_seen) * 1000000)::bigint, known.failures,
    --group--
FROM (
    SELECT *
    FROM (
        SELECT row_number() OVER walk AS place, lead(fingerprint) OVER walk IS NULL AS last,
            (%(category)s::text IS NULL OR error_category = %(category)s::text)
                AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
                AND (
                    %(text)s::text IS NULL OR strpos(lower(error_message), lower(%(text)s::text)) > 0
                    OR strpos(lower(error_type), lower(%(text)s::text)) > 0
                )
                AND (
                    %(pattern)s::text IS NULL OR error_message ~* %(pattern)s::text OR error_type ~* %(pattern)s::text
                )
                AND (NOT %(dead)s::boolean OR dead + coalesce((
                    SELECT sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n END)
                    FROM outlast.task_flow AS delta
                    WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = walked.fingerprint
                ), 0) > 0)
                AND (%(until)s::timestamptz IS NULL OR first_seen < %(until)s::timestamptz)
                AND (%(since)s::timestamptz IS NULL OR last_seen >= %(since)s::timestamptz OR EXISTS (
                    SELECT FROM outlast.task_flow AS delta
                    WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = walked.fingerprint
                        AND event IN (--failures--) AND at >= %(since)s::timestamptz
                ))
                AND (%(standing)s::text IS NULL OR %(standing)s::text = CASE
                    WHEN snoozed_until > now() THEN 'snoozed'
                    WHEN acknowledged_at IS NULL OR last_seen > acknowledged_at OR EXISTS (
                        SELECT FROM outlast.task_flow AS delta
                        WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = walked.fingerprint
                            AND event IN (--failures--) AND at > acknowledged_at
                    ) THEN 'open'
                    ELSE 'acknowledged'
                END) AS matches,
            walked.*
        FROM (
            SELECT * FROM outlast.failure_groups
            --walk--
            LIMIT %(look)s + 1
        ) AS walked
        WINDOW walk AS (ORDER BY --order--)
    ) AS looked
    WHERE place <= %(look)s AND matches OR place = %(look)s OR last
    ORDER BY --order-- LIMIT %(rows)s
) AS known
--recent--
ORDER BY known.place
