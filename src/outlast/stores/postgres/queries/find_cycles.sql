SELECT id, profile, started_at, ended_at, sources, polled, changed, failed, deferred, outage_since
FROM outlast.cycles
WHERE %(profile)s::text IS NULL OR profile = %(profile)s::text
ORDER BY id DESC LIMIT %(limit)s
