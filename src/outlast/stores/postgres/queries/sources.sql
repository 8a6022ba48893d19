-- part: source_columns
id, url, profile, name, selector, state, consecutive_failures, failing_since, disabled_at, disabled_by, probes, passed,
    last_success_at, last_failure_at, last_error, last_failure, next_poll_at, not_before, etag, last_modified, content_hash,
    memory, cycle, outcome, pending, epoch, leased_until, created_at

-- name: add_sources
-- Ids follow the given order; rows are inserted in order of their keys, which prevents deadlocks. Known sources use no
-- id.
WITH given AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (json_to_recordset(%(sources)s::json) AS (profile text, url text, name text, selector text))
        WITH ORDINALITY AS given (profile, url, name, selector, place)
),
fresh AS MATERIALIZED (
    SELECT DISTINCT ON (profile, url) * FROM given
    WHERE NOT EXISTS (SELECT FROM {schema}sources WHERE sources.profile = given.profile AND sources.url = given.url)
    ORDER BY profile, url, place
),
numbered AS MATERIALIZED (
    SELECT nextval('{schema}sources_id_seq') AS id, ordered.* FROM (SELECT * FROM fresh ORDER BY place) AS ordered
)
INSERT INTO {schema}sources (id, profile, url, name, selector)
SELECT id, profile, url, name, selector FROM numbered ORDER BY profile, url
ON CONFLICT (profile, url) DO NOTHING
RETURNING id

-- name: source_ids
-- For each given source its id, or NULL, in the given order.
SELECT sources.id
FROM ROWS FROM (json_to_recordset(%(sources)s::json) AS (profile text, url text)) WITH ORDINALITY AS given (profile, url, place)
LEFT JOIN {schema}sources ON sources.profile = given.profile AND sources.url = given.url
ORDER BY place

-- name: get_source
-- Used by the page of one source.
SELECT {source_columns}
FROM {schema}sources WHERE id = %(id)s

-- name: list_sources
-- One statement for all combinations of filters; it is planned for each call. Pages continue after an id.
SELECT {source_columns}
FROM {schema}sources
WHERE (%(profile)s::text IS NULL OR profile = %(profile)s::text)
    AND (%(state)s::text IS NULL OR state = %(state)s::text)
    AND (%(url)s::text IS NULL OR url = %(url)s::text)
    AND (%(text)s::text IS NULL OR strpos(url, %(text)s::text) > 0 OR strpos(name, %(text)s::text) > 0)
    AND (%(after)s::bigint IS NULL OR id > %(after)s::bigint)
ORDER BY id LIMIT %(limit)s

-- name: count_sources
-- Used by the overview of sources.
SELECT state, count(*) FROM {schema}sources
WHERE %(profile)s::text IS NULL OR profile = %(profile)s::text
GROUP BY state

-- name: deferred_sources
-- For the page of waits: sources that wait because their host cools down.
SELECT id, url FROM {schema}sources
WHERE outcome = 'deferred' AND not_before > now() AND state <> 'disabled'
ORDER BY id LIMIT %(limit)s

-- name: lock_sources
-- In order of id, like every statement that locks several sources: no deadlock.
SELECT now(), {source_columns}
FROM {schema}sources WHERE id = ANY (%(ids)s::bigint[])
ORDER BY id
FOR UPDATE

-- name: update_sources
-- The caller has locked the rows. A lease that is over has no owner.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(sources)s::json) AS given (
        id bigint, name text, selector text, state text, consecutive_failures integer, failing_since timestamptz,
        disabled_at timestamptz, disabled_by text, probes integer, passed integer, last_success_at timestamptz,
        last_failure_at timestamptz, last_error text, last_failure text, next_poll_at timestamptz, not_before timestamptz,
        etag text, last_modified text, content_hash text, memory text, cycle bigint, outcome text, pending text,
        epoch bigint, leased_until timestamptz
    )
)
UPDATE {schema}sources AS source
SET name = given.name, selector = given.selector, state = given.state, consecutive_failures = given.consecutive_failures,
    failing_since = given.failing_since, disabled_at = given.disabled_at, disabled_by = given.disabled_by,
    probes = given.probes, passed = given.passed, last_success_at = given.last_success_at,
    last_failure_at = given.last_failure_at, last_error = given.last_error, last_failure = given.last_failure,
    next_poll_at = given.next_poll_at, not_before = given.not_before, etag = given.etag,
    last_modified = given.last_modified, content_hash = given.content_hash, memory = given.memory, cycle = given.cycle,
    outcome = given.outcome, pending = given.pending, epoch = given.epoch, leased_until = given.leased_until,
    lease_owner = CASE WHEN given.leased_until IS NOT NULL THEN source.lease_owner END
FROM given
WHERE given.id BETWEEN 1 AND 9223372036854775807 AND source.id = given.id

-- name: delete_sources
-- Returns the ids that existed, because only those get an alert.
DELETE FROM {schema}sources WHERE id = ANY (%(ids)s::bigint[]) RETURNING id

-- name: delete_polls
-- In the transaction of delete_sources: a source's history ends with the source.
DELETE FROM {schema}source_polls WHERE source_id = ANY (%(ids)s::bigint[])

-- name: claim_sources
-- A locked source is being claimed by another monitor: skipped. The epoch rises, so a late result is refused.
WITH chosen AS MATERIALIZED (
    SELECT id AS chosen_id FROM {schema}sources
    WHERE cycle = %(cycle)s AND outcome IS NULL AND (leased_until IS NULL OR leased_until <= now())
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
),
taken AS (
    UPDATE {schema}sources
    SET epoch = epoch + 1, lease_owner = %(owner)s, leased_until = now() + %(lease)s
    FROM chosen
    WHERE chosen_id BETWEEN 1 AND 9223372036854775807 AND id = chosen_id
    RETURNING {source_columns}
)
SELECT * FROM taken ORDER BY id

-- name: renew_source_leases
-- Locked in order of id, like every statement that locks several sources. A polled source needs no lease.
WITH held AS MATERIALIZED (
    SELECT id FROM {schema}sources WHERE lease_owner = %(owner)s AND outcome IS NULL ORDER BY id FOR UPDATE
)
UPDATE {schema}sources AS source SET leased_until = now() + %(lease)s
FROM held
WHERE held.id BETWEEN 1 AND 9223372036854775807 AND source.id = held.id

-- name: release_source_leases
-- When a monitor stops, so that others need not wait for the leases to expire. Locked in order of id.
WITH held AS MATERIALIZED (
    SELECT id FROM {schema}sources WHERE lease_owner = %(owner)s AND outcome IS NULL ORDER BY id FOR UPDATE
)
UPDATE {schema}sources AS source SET lease_owner = NULL, leased_until = NULL
FROM held
WHERE held.id BETWEEN 1 AND 9223372036854775807 AND source.id = held.id

-- name: add_polls
-- The caller has locked the sources, so the newest poll stays the newest. Each new poll deletes the oldest one that is
-- kept.
WITH given AS MATERIALIZED (
    SELECT given.*,
        row_number() OVER (PARTITION BY source_id ORDER BY place) + coalesce((
            SELECT polls.id FROM {schema}source_polls AS polls
            WHERE polls.source_id = given.source_id
            ORDER BY polls.id DESC LIMIT 1
        ), 0) AS id
    FROM ROWS FROM (json_to_recordset(%(polls)s::json) AS (
        source_id bigint, cycle bigint, at timestamptz, outcome text, attempts integer, http_status integer, category text,
        error text, before text, after text
    )) WITH ORDINALITY AS given (
        source_id, cycle, at, outcome, attempts, http_status, category, error, before, after, place
    )
),
old AS (
    DELETE FROM {schema}source_polls AS polls USING given
    WHERE given.source_id BETWEEN 1 AND 9223372036854775807
        AND polls.source_id = given.source_id AND polls.id = given.id - %(kept)s
)
INSERT INTO {schema}source_polls
    (source_id, id, cycle, at, outcome, attempts, http_status, category, error, before, after)
SELECT source_id, id, cycle, at, outcome, attempts, http_status, category, error, before, after FROM given

-- name: list_polls
-- One range of the primary key, read from its end.
SELECT source_id, cycle, at, outcome, attempts, http_status, category, error, before, after
FROM {schema}source_polls WHERE source_id = %(id)s
ORDER BY id DESC LIMIT %(limit)s

-- name: recent_polls
-- Reads only the end of each source's index.
SELECT polls.source_id, polls.cycle, polls.at, polls.outcome, polls.attempts, polls.http_status, polls.category,
    polls.error, polls.before, polls.after
FROM (SELECT DISTINCT unnest(%(ids)s::bigint[]) AS source_id) AS wanted
CROSS JOIN LATERAL (
    SELECT * FROM {schema}source_polls
    WHERE source_polls.source_id = wanted.source_id
    ORDER BY id DESC LIMIT %(limit)s
) AS polls
ORDER BY polls.source_id, polls.id DESC
