UPDATE outlast.cycles SET sources = %(sources)s WHERE id = %(cycle)s
RETURNING id, profile, started_at, ended_at, sources, polled, changed, failed, deferred, outage_since
