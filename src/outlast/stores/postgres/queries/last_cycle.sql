SELECT id, profile, started_at, ended_at, sources, polled, changed, failed, deferred, outage_since
FROM outlast.cycles WHERE profile = %(profile)s AND ended_at IS NOT NULL
ORDER BY id DESC LIMIT 1
