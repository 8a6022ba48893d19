-- part: source_columns
id, url, profile, name, selector, state, consecutive_failures, failing_since, disabled_at, disabled_by, probes, passed,
    last_success_at, last_failure_at, last_error, last_failure, next_poll_at, not_before, etag, last_modified,
    content_hash, memory, cycle, outcome, pending, epoch, leased_until, created_at

-- name: add_source
-- A known source changes nothing and returns no row.
INSERT INTO sources (url, profile, name, selector, next_poll_at, created_at)
VALUES (:url, :profile, :name, :selector, :now, :now)
ON CONFLICT (profile, url) DO NOTHING
RETURNING id

-- name: source_id
-- Finds a known source, after add_source returned no row.
SELECT id FROM sources WHERE profile = :profile AND url = :url

-- name: get_source
-- Used by the page of one source, and before a change to it.
SELECT {source_columns} FROM sources WHERE id = :id

-- name: list_sources
-- One statement for all combinations of filters; pages continue after an id.
SELECT {source_columns} FROM sources
WHERE (:profile IS NULL OR profile = :profile)
    AND (:state IS NULL OR state = :state)
    AND (:url IS NULL OR url = :url)
    AND (:text IS NULL OR instr(url, :text) > 0 OR instr(name, :text) > 0)
    AND id > coalesce(:after, 0)
ORDER BY id
LIMIT coalesce(:limit, -1)

-- name: count_sources
-- Used by the overview of sources.
SELECT state, count(*) FROM sources WHERE :profile IS NULL OR profile = :profile GROUP BY state

-- name: deferred_sources
-- For the page of waits: sources that wait because their host cools down.
SELECT id, url FROM sources WHERE outcome = 'deferred' AND not_before > :now AND state <> 'disabled'
ORDER BY id LIMIT :limit

-- name: update_source
-- All columns but the key. Without a lease there is no owner.
UPDATE sources
SET name = :name, selector = :selector, state = :state, consecutive_failures = :consecutive_failures,
    failing_since = :failing_since, disabled_at = :disabled_at, disabled_by = :disabled_by, probes = :probes,
    passed = :passed, last_success_at = :last_success_at, last_failure_at = :last_failure_at, last_error = :last_error,
    last_failure = :last_failure, next_poll_at = :next_poll_at, not_before = :not_before, etag = :etag,
    last_modified = :last_modified, content_hash = :content_hash, memory = :memory, cycle = :cycle, outcome = :outcome,
    pending = :pending, epoch = :epoch, leased_until = :leased_until,
    lease_owner = CASE WHEN :leased_until IS NOT NULL THEN lease_owner END
WHERE id = :id

-- name: delete_sources
-- Returns the ids that existed, because only those get an alert.
DELETE FROM sources WHERE id IN (SELECT value FROM json_each(:ids)) RETURNING id

-- name: delete_polls
-- In the transaction of delete_sources, before it: a source's history ends with the source.
DELETE FROM source_polls WHERE source_id IN (SELECT value FROM json_each(:ids))

-- name: claim_sources
-- Sources that others hold are skipped; there are never more of them than the others can poll at a time.
UPDATE sources SET epoch = epoch + 1, lease_owner = :owner, leased_until = :now + :lease
WHERE id IN (
    SELECT id FROM sources INDEXED BY sources_cycle
    WHERE cycle = :cycle AND outcome IS NULL AND (leased_until IS NULL OR leased_until <= :now)
    ORDER BY id LIMIT :limit
)
RETURNING {source_columns}

-- name: renew_source_leases
-- All leases of a monitor at once. A polled source has an outcome and needs none.
UPDATE sources SET leased_until = :now + :lease WHERE lease_owner = :owner AND outcome IS NULL

-- name: release_source_leases
-- When a monitor stops, so that others need not wait for the leases to expire.
UPDATE sources SET lease_owner = NULL, leased_until = NULL WHERE lease_owner = :owner AND outcome IS NULL

-- name: add_poll
-- In the transaction that changes the source; prune_polls then deletes the oldest.
INSERT INTO source_polls (source_id, cycle, at, outcome, attempts, http_status, category, error, before, after)
VALUES (:source_id, :cycle, :at, :outcome, :attempts, :http_status, :category, :error, :before, :after)

-- name: list_polls
-- The index is named, so that only the end of the source's history is read.
SELECT source_id, cycle, at, outcome, attempts, http_status, category, error, before, after
FROM source_polls INDEXED BY source_polls_source WHERE source_id = :id ORDER BY id DESC LIMIT :limit

-- name: recent_polls
-- Reads only the end of each source's index, then the polls by id.
SELECT polls.source_id, polls.cycle, polls.at, polls.outcome, polls.attempts, polls.http_status, polls.category,
    polls.error, polls.before, polls.after
FROM json_each(:ids) AS wanted
CROSS JOIN source_polls AS polls
WHERE polls.id IN (
    SELECT id FROM source_polls INDEXED BY source_polls_source
    WHERE source_id = wanted.value ORDER BY id DESC LIMIT :limit
)
ORDER BY polls.id DESC
