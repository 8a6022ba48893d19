-- part: cycle_columns
id, profile, started_at, ended_at, sources, polled, changed, failed, deferred, outage_since

-- part: due_rows
-- The expressions are those of the indexes: two ranges, and every row read is returned.
SELECT id FROM sources INDEXED BY sources_due
WHERE profile = :profile AND state <> 'disabled' AND max(next_poll_at, coalesce(not_before, 0)) <= :now
UNION ALL
SELECT id FROM sources INDEXED BY sources_probed
WHERE profile = :profile AND state = 'disabled' AND disabled_by = 'rule' AND coalesce(not_before, 0) <= :now

-- part: pollable_rows
-- Whatever their schedule.
SELECT id FROM sources INDEXED BY sources_due
WHERE profile = :profile AND state <> 'disabled' AND coalesce(not_before, 0) <= :now
UNION ALL
SELECT id FROM sources INDEXED BY sources_probed
WHERE profile = :profile AND state = 'disabled' AND disabled_by = 'rule' AND coalesce(not_before, 0) <= :now

-- name: due_sources
-- The sources that a new cycle polls.
{due_rows}

-- name: has_due_source
-- Read before the file is locked: an idle monitor writes nothing.
{due_rows} LIMIT 1

-- name: pollable_sources
-- The sources that a new cycle polls if it polls everything.
{pollable_rows}

-- name: has_pollable_source
-- The same check as has_due_source for a cycle that polls everything.
{pollable_rows} LIMIT 1

-- name: start_cycle
-- The caller has checked in this transaction that no cycle of the profile runs.
INSERT INTO cycles (profile, started_at, sources) VALUES (?, ?, ?)

-- name: add_due_sources
-- Clears what the previous cycle left, including a lease that nobody released.
UPDATE sources SET cycle = :cycle, outcome = NULL, lease_owner = NULL, leased_until = NULL
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: running_cycle
-- The partial index contains only running cycles, at most one per profile.
SELECT {cycle_columns} FROM cycles INDEXED BY cycles_running WHERE profile = :profile AND ended_at IS NULL

-- name: last_cycle
-- The index is named: if nearly all cycles belong to another profile, the planner would read the table.
SELECT {cycle_columns} FROM cycles INDEXED BY cycles_profile
WHERE profile = :profile AND ended_at IS NOT NULL ORDER BY id DESC LIMIT 1

-- name: cycle_to_end
-- A running cycle, if no source is left to poll.
SELECT {cycle_columns} FROM cycles
WHERE id = :cycle AND ended_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM sources INDEXED BY sources_cycle WHERE cycle = :cycle AND outcome IS NULL)

-- name: sources_of_cycle
-- Without the remembered content, which may be large: the end of a cycle does not need it. The index is named, because
-- the planner would read the whole table to avoid the sort.
SELECT id, url, profile, name, selector, state, consecutive_failures, failing_since, disabled_at, disabled_by, probes, passed,
    last_success_at, last_failure_at, last_error, last_failure, next_poll_at, not_before, NULL, NULL, NULL, NULL, cycle,
    outcome, pending, epoch, leased_until, created_at
FROM sources INDEXED BY sources_cycle
WHERE cycle = :cycle ORDER BY id

-- name: update_source_at_cycle_end
-- Only columns that the end of a cycle may change; the others were not read.
UPDATE sources
SET state = :state, consecutive_failures = :consecutive_failures, failing_since = :failing_since,
    disabled_at = :disabled_at, disabled_by = :disabled_by, probes = :probes, passed = :passed,
    last_success_at = :last_success_at, last_failure_at = :last_failure_at, last_error = :last_error,
    last_failure = :last_failure, not_before = :not_before, pending = :pending
WHERE id = :id

-- name: record_withdrawn_polls
-- In one statement for all sources of the cycle. Runs before withdraw_failures, which clears what is read here.
INSERT INTO source_polls (source_id, cycle, at, outcome, http_status, category, error)
SELECT id, cycle, :now, 'withdrawn', pending ->> 'http_status', pending ->> 'category', pending ->> 'message'
FROM sources INDEXED BY sources_cycle WHERE cycle = :cycle AND pending IS NOT NULL

-- name: withdraw_failures
-- All failures of a cycle at once, after so many failed that the cause is not the sources.
UPDATE sources INDEXED BY sources_cycle SET pending = NULL WHERE cycle = :cycle AND pending IS NOT NULL

-- name: end_cycle
-- The caller has computed the totals from the sources of the cycle, in the same transaction.
UPDATE cycles
SET ended_at = :ended_at, sources = :sources, polled = :polled, changed = :changed, failed = :failed,
    deferred = :deferred, outage_since = :outage_since
WHERE id = :id

-- name: list_cycles
-- Newest first along the primary key.
SELECT {cycle_columns} FROM cycles ORDER BY id DESC LIMIT :limit

-- name: list_profile_cycles
-- The index is named: if nearly all cycles belong to another profile, the planner would read the table.
SELECT {cycle_columns} FROM cycles INDEXED BY cycles_profile WHERE profile = :profile ORDER BY id DESC LIMIT :limit
