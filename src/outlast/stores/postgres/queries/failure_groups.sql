-- part: failure_events
'retried', 'deferred', 'lost', 'failed', 'would_retry', 'would_defer', 'would_fail', 'would_abort', 'would_skip',
    'would_disable'

-- part: group_columns
known.fingerprint, known.task_type, error_type, error_category, error_message, first_seen,
    greatest(last_seen, recent.seen), (known.failures + recent.failures)::bigint, (known.dead + recent.dead)::bigint,
    note, acknowledged_at, acknowledged_by, snoozed_until, snoozed_by

-- part: recent_deltas
-- Counters of a group that are not rolled up yet.
{schema}task_flow AS delta WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint

-- part: dead_change
sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n END)

-- part: recent_counts
CROSS JOIN LATERAL (
    SELECT coalesce(sum(n) FILTER (WHERE event IN ({failure_events})), 0) AS failures,
        coalesce({dead_change}, 0) AS dead,
        max(at) FILTER (WHERE event IN ({failure_events})) AS seen
    FROM {recent_deltas}
) AS recent

-- part: is_unacknowledged
acknowledged_at IS NULL OR last_seen > acknowledged_at OR EXISTS (
    SELECT FROM {recent_deltas} AND event IN ({failure_events}) AND at > acknowledged_at
)

-- part: is_dead
dead + coalesce((SELECT {dead_change} FROM {recent_deltas}), 0) > 0

-- part: open_group
(snoozed_until IS NULL OR snoozed_until <= now())
    AND ({is_unacknowledged})

-- name: failure_group
-- Adds the deltas of this group only.
SELECT {group_columns}
FROM {schema}failure_groups AS known
{recent_counts}
WHERE known.fingerprint = %(fingerprint)s

-- name: list_fingerprints
-- Reads all fingerprints: an index of this collation does not know prefixes, and only people ask.
SELECT fingerprint FROM {schema}failure_groups
WHERE starts_with(fingerprint, %(prefix)s) ORDER BY fingerprint LIMIT %(limit)s

-- part: group_page_rows
SELECT known.place, last, matches, (extract(epoch FROM last_seen) * 1000000)::bigint, known.failures,
    {group_columns}
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
                AND (NOT %(dead)s::boolean OR {is_dead})
                AND (%(until)s::timestamptz IS NULL OR first_seen < %(until)s::timestamptz)
                AND (%(since)s::timestamptz IS NULL OR last_seen >= %(since)s::timestamptz OR EXISTS (
                    SELECT FROM {recent_deltas}
                        AND event IN ({failure_events}) AND at >= %(since)s::timestamptz
                ))
                AND (%(standing)s::text IS NULL OR %(standing)s::text = CASE
                    WHEN snoozed_until > now() THEN 'snoozed'
                    WHEN {is_unacknowledged} THEN 'open'
                    ELSE 'acknowledged'
                END) AS matches,
            known.*
        FROM (
            SELECT * FROM {schema}failure_groups

-- part: group_page_matches
    ) AS looked
    WHERE place <= %(look)s AND matches OR place = %(look)s OR last

-- part: group_page_end
) AS known
{recent_counts}
ORDER BY known.place

-- name: list_failure_groups_by_last_seen
-- In the order of the last rollup along one index, reading at most `look` rows. Row comparisons leave the planner only
-- that index. The last row read is returned even if it does not match: paging continues there. Recent deltas are added
-- to the counts.
{group_page_rows}
            WHERE (last_seen, fingerprint)
                    < ('epoch'::timestamptz + %(value)s * interval '1 microsecond', %(fingerprint)s::text)
                AND (last_seen, fingerprint) >= ('-infinity'::timestamptz, '')
            ORDER BY last_seen DESC, fingerprint DESC
            LIMIT %(look)s + 1
        ) AS known
        WINDOW walk AS (ORDER BY last_seen DESC, fingerprint DESC)
{group_page_matches}
    ORDER BY last_seen DESC, fingerprint DESC LIMIT %(rows)s
{group_page_end}

-- name: list_failure_groups_by_size
-- The same in the order of size.
{group_page_rows}
            WHERE (failures, fingerprint) < (%(value)s::bigint, %(fingerprint)s::text)
                AND (failures, fingerprint) >= (-1, '')
            ORDER BY failures DESC, fingerprint DESC
            LIMIT %(look)s + 1
        ) AS known
        WINDOW walk AS (ORDER BY failures DESC, fingerprint DESC)
{group_page_matches}
    ORDER BY failures DESC, fingerprint DESC LIMIT %(rows)s
{group_page_end}

-- name: list_failure_groups_by_category
-- The same along the index of categories.
{group_page_rows}
            WHERE (error_category, last_seen, fingerprint)
                    < (%(category)s::text, 'epoch'::timestamptz + %(value)s * interval '1 microsecond', %(fingerprint)s::text)
                AND (error_category, last_seen, fingerprint) >= (%(category)s::text, '-infinity'::timestamptz, '')
            ORDER BY error_category DESC, last_seen DESC, fingerprint DESC
            LIMIT %(look)s + 1
        ) AS known
        WINDOW walk AS (ORDER BY error_category DESC, last_seen DESC, fingerprint DESC)
{group_page_matches}
    ORDER BY error_category DESC, last_seen DESC, fingerprint DESC LIMIT %(rows)s
{group_page_end}

-- name: list_failure_groups_by_task_type
-- The same along the index of task types.
{group_page_rows}
            WHERE (task_type, last_seen, fingerprint)
                    < (%(task_type)s::text, 'epoch'::timestamptz + %(value)s * interval '1 microsecond', %(fingerprint)s::text)
                AND (task_type, last_seen, fingerprint) >= (%(task_type)s::text, '-infinity'::timestamptz, '')
            ORDER BY task_type DESC, last_seen DESC, fingerprint DESC
            LIMIT %(look)s + 1
        ) AS known
        WINDOW walk AS (ORDER BY task_type DESC, last_seen DESC, fingerprint DESC)
{group_page_matches}
    ORDER BY task_type DESC, last_seen DESC, fingerprint DESC LIMIT %(rows)s
{group_page_end}

-- name: failure_flow
-- The rolled-up flow, plus the deltas that are not in it yet.
SELECT fingerprint, to_timestamp(floor(extract(epoch FROM at) / %(step)s) * %(step)s) AS begin, event, error_category,
    sum(n)::bigint
FROM (
    SELECT fingerprint, at, event, n FROM {schema}failure_flow
    WHERE fingerprint = ANY (%(fingerprints)s::text[]) AND span IN (10, 600)
        AND at >= to_timestamp(floor((extract(epoch FROM now()) - %(window)s) / %(step)s) * %(step)s)
    UNION ALL
    SELECT fingerprint, at, event, n FROM {schema}task_flow
    WHERE fingerprint = ANY (%(fingerprints)s::text[]) AND span = 0 AND fingerprint <> ''
        AND event IN ({failure_events})
        AND at >= to_timestamp(floor((extract(epoch FROM now()) - %(window)s) / %(step)s) * %(step)s)
) AS flow
JOIN {schema}failure_groups USING (fingerprint)
GROUP BY fingerprint, begin, event, error_category
ORDER BY begin, event

-- name: failure_samples
-- Row comparisons: only one index has this order, so the planner reads from the newest of the group, whatever it
-- expects.
SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, traceback, failure
FROM {schema}task_attempts
WHERE (fingerprint, id) >= (%(fingerprint)s, 0) AND (fingerprint, id) <= (%(fingerprint)s, 9223372036854775807)
ORDER BY fingerprint DESC, id DESC LIMIT %(limit)s

-- name: failure_tasks
-- The tasks of the newest attempts of each group; row comparisons as in failure_samples.
SELECT wanted, task_type, count(*)
FROM unnest(%(fingerprints)s::text[]) AS wanted
CROSS JOIN LATERAL (
    SELECT task_id FROM {schema}task_attempts
    WHERE (fingerprint, id) >= (wanted, 0) AND (fingerprint, id) <= (wanted, 9223372036854775807)
    ORDER BY fingerprint DESC, id DESC LIMIT %(limit)s
) AS newest
JOIN {schema}task_queue ON task_queue.id = newest.task_id
GROUP BY 1, 2 ORDER BY 3 DESC, 2

-- name: mark_group
-- Values that are not given stay.
UPDATE {schema}failure_groups
SET note = coalesce(%(note)s::text, note),
    acknowledged_at = CASE %(acknowledged)s::boolean WHEN true THEN now() WHEN false THEN NULL ELSE acknowledged_at END,
    acknowledged_by = CASE %(acknowledged)s::boolean WHEN true THEN %(who)s WHEN false THEN '' ELSE acknowledged_by END,
    snoozed_by = CASE
        WHEN %(snooze)s::interval IS NULL THEN snoozed_by
        WHEN %(snooze)s::interval > interval '0' THEN %(who)s
        ELSE ''
    END,
    snoozed_until = CASE
        WHEN %(snooze)s::interval IS NULL THEN snoozed_until
        WHEN %(snooze)s::interval > interval '0' THEN now() + %(snooze)s::interval
    END
WHERE fingerprint = %(fingerprint)s

-- name: unannounced_groups
-- Groups that have an alert by now are marked on the way, so the next call skips them. Waits for no lock.
WITH announced AS (
    UPDATE {schema}failure_groups SET told = true
    WHERE fingerprint = ANY (ARRAY(
        SELECT fingerprint FROM {schema}failure_groups AS known
        WHERE NOT told AND EXISTS (SELECT FROM {schema}alerts WHERE key = 'group:' || known.fingerprint)
        FOR UPDATE SKIP LOCKED
    ))
)
SELECT {group_columns}
FROM (
    SELECT * FROM {schema}failure_groups AS known
    WHERE NOT told AND NOT EXISTS (SELECT FROM {schema}alerts WHERE key = 'group:' || known.fingerprint) AND {open_group}
        AND (
            %(quiet)s::float8 IS NULL OR last_seen >= now() - make_interval(secs => %(quiet)s::float8) OR EXISTS (
                SELECT FROM {recent_deltas}
                    AND event IN ({failure_events}) AND at >= now() - make_interval(secs => %(quiet)s::float8)
            ) OR {is_dead}
        )
    ORDER BY first_seen, fingerprint LIMIT %(limit)s
) AS known
{recent_counts}
ORDER BY first_seen, known.fingerprint

-- name: oldest_dead_letter
-- Usually one of the oldest dead letters is in an open group. If not, the first of each open group is looked up.
SELECT extract(epoch FROM now() - coalesce(
    (
        SELECT moved_to_dlq_at
        FROM (
            SELECT moved_to_dlq_at, fingerprint FROM {schema}dead_letter_queue ORDER BY moved_to_dlq_at LIMIT %(look)s
        ) AS letter
        JOIN {schema}failure_groups AS known USING (fingerprint)
        WHERE {open_group}
        ORDER BY moved_to_dlq_at LIMIT 1
    ),
    (
        SELECT min(letter.moved_to_dlq_at)
        FROM {schema}failure_groups AS known
        CROSS JOIN LATERAL (
            SELECT moved_to_dlq_at FROM {schema}dead_letter_queue
            WHERE (fingerprint, id) >= (known.fingerprint, 0)
                AND (fingerprint, id) <= (known.fingerprint, 9223372036854775807)
            ORDER BY fingerprint, id LIMIT 1
        ) AS letter
        WHERE {open_group}
            AND (dead > 0 OR EXISTS (
                SELECT FROM {recent_deltas} AND event = 'failed'
            ))
    )
))::float8
