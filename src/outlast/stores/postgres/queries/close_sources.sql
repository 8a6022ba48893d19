-- What the end of a cycle may change. The rest was not read for it, so it is not written either. The rows are locked already.
WITH given AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(%(sources)s::json) AS given (
        id bigint, state text, consecutive_failures integer, failing_since timestamptz, disabled_at timestamptz,
        disabled_by text, probes integer, passed integer, last_success_at timestamptz, last_failure_at timestamptz,
        last_error text, last_failure text, not_before timestamptz, pending text
    )
)
UPDATE outlast.sources AS source
SET state = given.state, consecutive_failures = given.consecutive_failures, failing_since = given.failing_since,
    disabled_at = given.disabled_at, disabled_by = given.disabled_by, probes = given.probes, passed = given.passed,
    last_success_at = given.last_success_at, last_failure_at = given.last_failure_at, last_error = given.last_error,
    last_failure = given.last_failure, not_before = given.not_before, pending = given.pending
FROM given
WHERE given.id BETWEEN 1 AND 9223372036854775807 AND source.id = given.id
