-- What the end of a cycle may change. The rest was not read for it, so it is not written either.
UPDATE sources
SET state = :state, consecutive_failures = :consecutive_failures, failing_since = :failing_since,
    disabled_at = :disabled_at, disabled_by = :disabled_by, probes = :probes, passed = :passed,
    last_success_at = :last_success_at, last_failure_at = :last_failure_at, last_error = :last_error,
    last_failure = :last_failure, not_before = :not_before, pending = :pending
WHERE id = :id
