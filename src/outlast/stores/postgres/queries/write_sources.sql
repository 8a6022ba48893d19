-- The rows are locked already. A lease that is over has no owner.
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
UPDATE outlast.sources AS source
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
