-- All but what it is known by. Who held it is forgotten with the lease.
UPDATE sources
SET name = :name, selector = :selector, state = :state, consecutive_failures = :consecutive_failures,
    failing_since = :failing_since, disabled_at = :disabled_at, disabled_by = :disabled_by, probes = :probes,
    passed = :passed, last_success_at = :last_success_at, last_failure_at = :last_failure_at, last_error = :last_error,
    last_failure = :last_failure, next_poll_at = :next_poll_at, not_before = :not_before, etag = :etag,
    last_modified = :last_modified, content_hash = :content_hash, memory = :memory, cycle = :cycle, outcome = :outcome,
    pending = :pending, epoch = :epoch, leased_until = :leased_until,
    lease_owner = CASE WHEN :leased_until IS NOT NULL THEN lease_owner END
WHERE id = :id
