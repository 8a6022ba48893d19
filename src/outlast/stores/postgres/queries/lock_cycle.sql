-- Those who come too early hold nobody up: the row is locked only when nothing waits.
SELECT now(), id, profile, started_at, ended_at, sources, polled, changed, failed, deferred, outage_since
FROM outlast.cycles
WHERE id = %(cycle)s AND ended_at IS NULL
    AND NOT EXISTS (SELECT FROM outlast.sources AS source WHERE source.cycle = %(cycle)s AND source.outcome IS NULL)
FOR UPDATE
