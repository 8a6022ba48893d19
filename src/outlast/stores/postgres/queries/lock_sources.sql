-- In the order of their numbers, as everybody who takes several: nobody waits in a circle.
SELECT now(), id, url, profile, name, selector, state, consecutive_failures, failing_since, disabled_at, disabled_by, probes, passed,
    last_success_at, last_failure_at, last_error, last_failure, next_poll_at, not_before, etag, last_modified, content_hash,
    memory, cycle, outcome, pending, epoch, leased_until, created_at
FROM outlast.sources WHERE id = ANY (%(ids)s::bigint[])
ORDER BY id
FOR UPDATE
