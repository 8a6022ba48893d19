UPDATE cycles
SET ended_at = :ended_at, sources = :sources, polled = :polled, changed = :changed, failed = :failed,
    deferred = :deferred, outage_since = :outage_since
WHERE id = :id
