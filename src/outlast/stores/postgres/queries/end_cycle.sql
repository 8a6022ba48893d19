UPDATE outlast.cycles
SET ended_at = coalesce(%(ended_at)s, now()), sources = %(sources)s, polled = %(polled)s, changed = %(changed)s,
    failed = %(failed)s, deferred = %(deferred)s, outage_since = %(outage_since)s
WHERE id = %(id)s
