-- Without what each has seen, of which there may be much: the end of a cycle is not decided by it.
SELECT id, url, profile, name, selector, state, consecutive_failures, failing_since, disabled_at, disabled_by, probes, passed,
    last_success_at, last_failure_at, last_error, last_failure, next_poll_at, not_before, NULL AS etag,
    NULL AS last_modified, NULL AS content_hash, NULL AS memory, cycle, outcome, pending, epoch, leased_until, created_at
FROM outlast.sources WHERE cycle = %(cycle)s
ORDER BY id
FOR UPDATE
