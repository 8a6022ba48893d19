-- part: cycle_columns
id, profile, started_at, ended_at, sources, polled, changed, failed, deferred, outage_since

-- name: any_source_due
-- Read-only check for idle monitors: the first entry of two index ranges. EXISTS would make the planner scan the table.
SELECT (
    SELECT id FROM {schema}sources
    WHERE profile = %(profile)s AND state <> 'disabled'
        AND greatest(next_poll_at, not_before) <= CASE WHEN %(everything)s THEN 'infinity' ELSE now() END
        AND (not_before IS NULL OR not_before <= now())
    ORDER BY profile, greatest(next_poll_at, not_before) LIMIT 1
) IS NOT NULL OR (
    SELECT id FROM {schema}sources
    WHERE profile = %(profile)s AND state = 'disabled' AND disabled_by = 'rule'
        AND coalesce(not_before, '-infinity') <= now()
    ORDER BY profile, coalesce(not_before, '-infinity') LIMIT 1
) IS NOT NULL

-- name: start_cycle
-- A second caller waits for the first to commit and adds nothing.
INSERT INTO {schema}cycles (profile) VALUES (%(profile)s)
ON CONFLICT (profile) WHERE ended_at IS NULL DO NOTHING
RETURNING id

-- name: add_due_sources
-- The same sources as any_source_due. With an array of ids the planner uses the primary key, whatever it expects.
WITH due AS MATERIALIZED (
    SELECT id FROM {schema}sources
    WHERE (
        profile = %(profile)s AND state <> 'disabled'
            AND greatest(next_poll_at, not_before) <= CASE WHEN %(everything)s THEN 'infinity' ELSE now() END
            AND (not_before IS NULL OR not_before <= now())
    ) OR (
        profile = %(profile)s AND state = 'disabled' AND disabled_by = 'rule'
            AND coalesce(not_before, '-infinity') <= now()
    )
    ORDER BY id
    FOR UPDATE
)
UPDATE {schema}sources SET cycle = %(cycle)s, outcome = NULL, lease_owner = NULL, leased_until = NULL
WHERE id = ANY (ARRAY(SELECT due.id FROM due))

-- name: set_cycle_size
-- After add_due_sources, which alone knows how many sources joined.
UPDATE {schema}cycles SET sources = %(sources)s WHERE id = %(cycle)s
RETURNING {cycle_columns}

-- name: running_cycle
-- A profile has at most one running cycle, which a partial unique index guarantees.
SELECT {cycle_columns}
FROM {schema}cycles WHERE profile = %(profile)s AND ended_at IS NULL

-- name: last_cycle
-- What the end of a cycle compares with, for example whether an outage goes on.
SELECT {cycle_columns}
FROM {schema}cycles WHERE profile = %(profile)s AND ended_at IS NOT NULL
ORDER BY id DESC LIMIT 1

-- name: lock_cycle
-- Locked only when no source is left, so early callers block nobody.
SELECT now(), {cycle_columns}
FROM {schema}cycles
WHERE id = %(cycle)s AND ended_at IS NULL
    AND NOT EXISTS (SELECT FROM {schema}sources AS source WHERE source.cycle = %(cycle)s AND source.outcome IS NULL)
FOR UPDATE

-- name: lock_cycle_sources
-- Without the remembered content, which may be large: the end of a cycle does not need it.
SELECT id, url, profile, name, selector, state, consecutive_failures, failing_since, disabled_at, disabled_by, probes, passed,
    last_success_at, last_failure_at, last_error, last_failure, next_poll_at, not_before, NULL AS etag,
    NULL AS last_modified, NULL AS content_hash, NULL AS memory, cycle, outcome, pending, epoch, leased_until, created_at
FROM {schema}sources WHERE cycle = %(cycle)s
ORDER BY id
FOR UPDATE

-- name: update_sources_at_cycle_end
-- Only columns that the end of a cycle may change; the others were not read. The caller has locked the rows.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(sources)s::json) AS given (
        id bigint, state text, consecutive_failures integer, failing_since timestamptz, disabled_at timestamptz,
        disabled_by text, probes integer, passed integer, last_success_at timestamptz, last_failure_at timestamptz,
        last_error text, last_failure text, not_before timestamptz, pending text
    )
)
UPDATE {schema}sources AS source
SET state = given.state, consecutive_failures = given.consecutive_failures, failing_since = given.failing_since,
    disabled_at = given.disabled_at, disabled_by = given.disabled_by, probes = given.probes, passed = given.passed,
    last_success_at = given.last_success_at, last_failure_at = given.last_failure_at, last_error = given.last_error,
    last_failure = given.last_failure, not_before = given.not_before, pending = given.pending
FROM given
WHERE given.id BETWEEN 1 AND 9223372036854775807 AND source.id = given.id

-- name: withdraw_failures
-- All failures of a cycle at once.
UPDATE {schema}sources SET pending = NULL WHERE cycle = %(cycle)s AND pending IS NOT NULL

-- name: end_cycle
-- The caller has locked the cycle and computed the totals from its sources.
UPDATE {schema}cycles
SET ended_at = coalesce(%(ended_at)s, now()), sources = %(sources)s, polled = %(polled)s, changed = %(changed)s,
    failed = %(failed)s, deferred = %(deferred)s, outage_since = %(outage_since)s
WHERE id = %(id)s

-- name: list_cycles
-- One statement for all filters; it is planned for each call.
SELECT {cycle_columns}
FROM {schema}cycles
WHERE %(profile)s::text IS NULL OR profile = %(profile)s::text
ORDER BY id DESC LIMIT %(limit)s
