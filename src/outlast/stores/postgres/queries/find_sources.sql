SELECT id, url, profile, name, selector, state, consecutive_failures, failing_since, disabled_at, disabled_by, probes, passed,
    last_success_at, last_failure_at, last_error, last_failure, next_poll_at, not_before, etag, last_modified, content_hash,
    memory, cycle, outcome, pending, epoch, leased_until, created_at
FROM outlast.sources
WHERE (%(profile)s::text IS NULL OR profile = %(profile)s::text)
    AND (%(state)s::text IS NULL OR state = %(state)s::text)
    AND (%(url)s::text IS NULL OR url = %(url)s::text)
    AND (%(text)s::text IS NULL OR strpos(url, %(text)s::text) > 0 OR strpos(name, %(text)s::text) > 0)
    AND (%(after)s::bigint IS NULL OR id > %(after)s::bigint)
ORDER BY id LIMIT %(limit)s
