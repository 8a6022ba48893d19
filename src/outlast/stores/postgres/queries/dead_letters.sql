-- part: dead_letter_columns
id, original_task_id, task_type, queue, priority, parameters, resource, unique_key, error_type, error_message,
    error_category, reason, fingerprint, traceback, failure, retry_count, crash_count, replays, worker_id, created_at,
    moved_to_dlq_at, options

-- part: dead_letter_matches
(%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s::bigint[]))
    AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
    AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
    AND (%(category)s::text IS NULL OR error_category = %(category)s::text)
    AND (%(reason)s::text IS NULL OR reason = %(reason)s::text)
    AND (%(fingerprint)s::text IS NULL OR fingerprint = %(fingerprint)s::text)
    AND (%(since)s::timestamptz IS NULL OR moved_to_dlq_at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR moved_to_dlq_at < %(until)s::timestamptz)
    AND (
        %(text)s::text IS NULL OR strpos(lower(error_message), lower(%(text)s::text)) > 0
        OR strpos(lower(error_type), lower(%(text)s::text)) > 0
    )
    AND (%(pattern)s::text IS NULL OR error_message ~* %(pattern)s::text OR error_type ~* %(pattern)s::text)

-- part: dead_letter_filter
WHERE {dead_letter_matches}
    AND (%(before)s::bigint IS NULL OR id < %(before)s::bigint)

-- part: id_before
least(%(before)s::bigint, (
            SELECT min(id)
            FROM (
                SELECT id FROM {schema}dead_letter_queue
                WHERE moved_to_dlq_at >= %(until)s::timestamptz + interval '1 minute'
                ORDER BY moved_to_dlq_at LIMIT 100
            ) AS newer
        ))

-- part: id_after
coalesce((
            SELECT min(id)
            FROM (
                SELECT id FROM {schema}dead_letter_queue
                WHERE moved_to_dlq_at < %(since)s::timestamptz - interval '1 minute'
                ORDER BY moved_to_dlq_at DESC LIMIT 100
            ) AS older
        ), 0)

-- part: newest_of_all
WHERE id < {id_before} AND id > {id_after}
        ORDER BY id DESC

-- part: newest_by_ids
WHERE id = ANY (%(ids)s::bigint[]) AND id < %(before)s
        ORDER BY id DESC

-- part: newest_by_fingerprint
WHERE (fingerprint, id) < (%(fingerprint)s::text, {id_before}) AND (fingerprint, id) > (%(fingerprint)s::text, {id_after})
        ORDER BY fingerprint DESC, id DESC

-- part: newest_by_task_type
WHERE (task_type, id) < (%(task_type)s::text, {id_before}) AND (task_type, id) > (%(task_type)s::text, {id_after})
        ORDER BY task_type DESC, id DESC

-- part: newest_by_category
WHERE (error_category, id) < (%(category)s::text, {id_before}) AND (error_category, id) > (%(category)s::text, {id_after})
        ORDER BY error_category DESC, id DESC

-- part: oldest_of_all
WHERE id > %(cursor)s AND id <= %(newest)s
        ORDER BY id

-- part: oldest_by_ids
WHERE id > %(cursor)s AND id <= %(newest)s AND id = ANY (%(ids)s::bigint[])
        ORDER BY id

-- part: oldest_by_fingerprint
WHERE (fingerprint, id) > (%(fingerprint)s::text, %(cursor)s) AND (fingerprint, id) <= (%(fingerprint)s::text, %(newest)s)
        ORDER BY fingerprint, id

-- part: oldest_by_task_type
WHERE (task_type, id) > (%(task_type)s::text, %(cursor)s) AND (task_type, id) <= (%(task_type)s::text, %(newest)s)
        ORDER BY task_type, id

-- part: oldest_by_category
WHERE (error_category, id) > (%(category)s::text, %(cursor)s) AND (error_category, id) <= (%(category)s::text, %(newest)s)
        ORDER BY error_category, id

-- part: dead_letter_page_rows
SELECT place, last, matches, id, original_task_id, task_type, queue, error_type, error_message, error_category, reason,
    fingerprint, retry_count, replays, moved_to_dlq_at
FROM (
    SELECT row_number() OVER walk AS place, lead(id) OVER walk IS NULL AS last,
        {dead_letter_matches} AS matches,
        scanned.*
    FROM (
        SELECT id, original_task_id, task_type, queue, error_type, error_message, error_category, reason, fingerprint,
            retry_count, replays, moved_to_dlq_at
        FROM {schema}dead_letter_queue

-- part: dead_letter_page_matches
) AS looked
WHERE place <= %(look)s AND matches OR place = %(look)s OR last

-- part: filter_columns
id, task_type, queue, error_category, reason, fingerprint, moved_to_dlq_at, error_type, error_message

-- part: matching_rows
WITH scanned AS MATERIALIZED (
    SELECT {filter_columns}
    FROM {schema}dead_letter_queue

-- part: matching_counts
    LIMIT %(look)s
),
matching AS MATERIALIZED (
    SELECT id FROM scanned
    {dead_letter_filter}
    ORDER BY id DESC LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM matching), (SELECT min(id) FROM matching), (SELECT max(id) FROM matching),
    (SELECT count(*) FROM scanned), (SELECT min(id) FROM scanned)

-- part: next_rows
WITH found AS MATERIALIZED (
    SELECT ARRAY(
        SELECT id
        FROM (
            SELECT {filter_columns}
            FROM {schema}dead_letter_queue

-- part: next_matches
            LIMIT %(look)s
        ) AS scanned
        {dead_letter_filter}
        LIMIT %(limit)s
    ) AS ids
)
SELECT ids, CASE WHEN cardinality(ids) < %(limit)s THEN (
    SELECT id FROM {schema}dead_letter_queue

-- part: next_end
    OFFSET %(look)s - 1 LIMIT 1
) END
FROM found

-- name: dead_letter
-- Used by the page of one dead letter.
SELECT {dead_letter_columns}
FROM {schema}dead_letter_queue WHERE id = %(id)s

-- name: dead_letters
-- One statement for all combinations of filters; it is planned for each call.
SELECT {dead_letter_columns}
FROM {schema}dead_letter_queue
{dead_letter_filter}
ORDER BY id DESC LIMIT %(limit)s

-- name: count_dead_letters
-- The exact number; reads every matching row.
SELECT count(*) FROM {schema}dead_letter_queue
{dead_letter_filter}

-- name: count_dead_letters_by_type
-- From the counters, without reading dead letters.
SELECT task_type, category, dead
FROM (
    SELECT task_type, category, sum(CASE event WHEN 'failed' THEN n ELSE -n END)::bigint AS dead
    FROM {schema}task_flow WHERE span IN (-1, 0) AND event IN ('failed', 'replayed', 'discarded')
    GROUP BY task_type, category
) AS counters
WHERE dead > 0

-- name: group_dead_letters
-- The sample of a group is its newest dead letter.
SELECT fingerprint, count, task_type, error_type, error_category, error_message, first_seen, last_seen
FROM (
    SELECT DISTINCT ON (fingerprint)
        fingerprint, count(*) OVER same AS count, task_type, error_type, error_category, error_message,
        min(moved_to_dlq_at) OVER same AS first_seen, max(moved_to_dlq_at) OVER same AS last_seen
    FROM {schema}dead_letter_queue
    {dead_letter_filter}
    WINDOW same AS (PARTITION BY fingerprint)
    ORDER BY fingerprint, moved_to_dlq_at DESC, id DESC
) AS causes
ORDER BY count DESC, last_seen DESC
LIMIT %(limit)s

-- name: list_dead_letters
-- Newest first along one index, reading at most `look` rows. Row comparisons on (column, id) leave the planner only
-- that index. The last row read is returned even if it does not match: paging continues there. A dead letter has the
-- time at which its transaction began and an id drawn later, usually within a minute. So a time range also bounds the
-- ids; up to 100 rows are read for a bound because a long transaction may be an exception.
{dead_letter_page_rows}
        {newest_of_all}
        LIMIT %(look)s + 1
    ) AS scanned
    WINDOW walk AS (ORDER BY id DESC)
{dead_letter_page_matches}
ORDER BY id DESC LIMIT %(rows)s

-- name: list_dead_letters_by_ids
-- The same for given ids.
{dead_letter_page_rows}
        {newest_by_ids}
        LIMIT %(look)s + 1
    ) AS scanned
    WINDOW walk AS (ORDER BY id DESC)
{dead_letter_page_matches}
ORDER BY id DESC LIMIT %(rows)s

-- name: list_dead_letters_by_fingerprint
-- The same along the index of fingerprints.
{dead_letter_page_rows}
        {newest_by_fingerprint}
        LIMIT %(look)s + 1
    ) AS scanned
    WINDOW walk AS (ORDER BY fingerprint DESC, id DESC)
{dead_letter_page_matches}
ORDER BY fingerprint DESC, id DESC LIMIT %(rows)s

-- name: list_dead_letters_by_task_type
-- The same along the index of task types.
{dead_letter_page_rows}
        {newest_by_task_type}
        LIMIT %(look)s + 1
    ) AS scanned
    WINDOW walk AS (ORDER BY task_type DESC, id DESC)
{dead_letter_page_matches}
ORDER BY task_type DESC, id DESC LIMIT %(rows)s

-- name: list_dead_letters_by_category
-- The same along the index of categories.
{dead_letter_page_rows}
        {newest_by_category}
        LIMIT %(look)s + 1
    ) AS scanned
    WINDOW walk AS (ORDER BY error_category DESC, id DESC)
{dead_letter_page_matches}
ORDER BY error_category DESC, id DESC LIMIT %(rows)s

-- name: count_matching
-- How many of the next `look` dead letters match a replay's filter, the smallest and largest id, and where the scan
-- ended.
{matching_rows}
    {newest_of_all}
{matching_counts}

-- name: count_matching_by_ids
-- The same for given ids.
{matching_rows}
    {newest_by_ids}
{matching_counts}

-- name: count_matching_by_fingerprint
-- The same along the index of fingerprints.
{matching_rows}
    {newest_by_fingerprint}
{matching_counts}

-- name: count_matching_by_task_type
-- The same along the index of task types.
{matching_rows}
    {newest_by_task_type}
{matching_counts}

-- name: count_matching_by_category
-- The same along the index of categories.
{matching_rows}
    {newest_by_category}
{matching_counts}

-- name: next_matching
-- The next dead letters of a replay, oldest first; if fewer than `limit` match, also how far the scan has read.
{next_rows}
            {oldest_of_all}
{next_matches}
    {oldest_of_all}
{next_end}

-- name: next_matching_by_ids
-- The same for given ids.
{next_rows}
            {oldest_by_ids}
{next_matches}
    {oldest_by_ids}
{next_end}

-- name: next_matching_by_fingerprint
-- The same along the index of fingerprints.
{next_rows}
            {oldest_by_fingerprint}
{next_matches}
    {oldest_by_fingerprint}
{next_end}

-- name: next_matching_by_task_type
-- The same along the index of task types.
{next_rows}
            {oldest_by_task_type}
{next_matches}
    {oldest_by_task_type}
{next_end}

-- name: next_matching_by_category
-- The same along the index of categories.
{next_rows}
            {oldest_by_category}
{next_matches}
    {oldest_by_category}
{next_end}

-- name: discard_dead_letters
-- One statement, so a dead letter, its task and the counters change together.
WITH letters AS (
    DELETE FROM {schema}dead_letter_queue WHERE id = ANY (%(ids)s::bigint[])
    RETURNING original_task_id, task_type, error_category, fingerprint
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = 'DISCARDED', finished_at = now(), updated_at = now()
    FROM letters
    WHERE task.id = letters.original_task_id AND task.status = 'FAILED'
    RETURNING letters.task_type, letters.error_category, letters.fingerprint
),
counted AS (
    INSERT INTO {schema}task_flow (event, task_type, category, fingerprint, n)
    SELECT 'discarded', task_type, error_category, fingerprint, count(*) FROM changed GROUP BY 2, 3, 4
)
SELECT count(*) FROM letters

-- name: edit_payload
-- Only if nobody changed it meanwhile. The row tells an edit from a conflict; no row: the dead letter is gone.
WITH letter AS MATERIALIZED (
    SELECT known.id, task.id AS task_id, known.parameters = %(before)s AS same
    FROM {schema}dead_letter_queue AS known
    JOIN {schema}task_queue AS task ON task.id = known.original_task_id AND task.status || '' = 'FAILED'
    WHERE known.id = %(id)s
    FOR UPDATE
),
changed AS (
    UPDATE {schema}dead_letter_queue AS known SET parameters = %(after)s
    FROM letter WHERE known.id = letter.id AND same
),
task AS (
    UPDATE {schema}task_queue AS known SET parameters = %(after)s, updated_at = now()
    FROM letter WHERE known.id = letter.task_id AND same
),
edit AS (
    INSERT INTO {schema}payload_edits (task_id, before, after, patch, who, reason)
    SELECT task_id, %(before)s, %(after)s, %(patch)s, %(who)s, %(reason)s FROM letter WHERE same
)
SELECT CASE WHEN same THEN 'edited' ELSE 'changed' END FROM letter

-- name: payload_edits
-- Used by the page of one task. ORDER BY follows the index.
SELECT id, task_id, before, after, patch, who, reason, at
FROM {schema}payload_edits WHERE task_id = %(task_id)s ORDER BY task_id, id

-- name: check_dead_letter_insert
-- Rolled back by the caller. Uses no id of the sequence, which would look like a new dead letter.
INSERT INTO {schema}dead_letter_queue
    (id, original_task_id, task_type, queue, priority, parameters, error_type, error_message, error_category, reason,
     fingerprint, traceback, failure, retry_count, crash_count, replays, created_at, moved_to_dlq_at)
VALUES (-pg_backend_pid(), -pg_backend_pid(), '', '', 0, '', '', '', '', '', '', '', '', 0, 0, 0, now(), now())
