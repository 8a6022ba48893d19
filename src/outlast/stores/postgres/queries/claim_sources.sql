WITH chosen AS MATERIALIZED (
    SELECT id AS chosen_id FROM outlast.sources
    WHERE cycle = %(cycle)s AND outcome IS NULL AND (leased_until IS NULL OR leased_until <= now())
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
),
taken AS (
    UPDATE outlast.sources
    SET epoch = epoch + 1, lease_owner = %(owner)s, leased_until = now() + make_interval(secs => %(lease)s)
    FROM chosen
    WHERE chosen_id BETWEEN 1 AND 9223372036854775807 AND id = chosen_id
    RETURNING id, url, profile, name, selector, state, consecutive_failures, failing_since, disabled_at, disabled_by, probes, passed,
    last_success_at, last_failure_at, last_error, last_failure, next_poll_at, not_before, etag, last_modified, content_hash,
    memory, cycle, outcome, pending, epoch, leased_until, created_at
)
SELECT * FROM taken ORDER BY id
