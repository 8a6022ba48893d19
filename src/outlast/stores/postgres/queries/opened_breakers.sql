-- Asked every second by every process that has a breaker: a range of the key for each of its resources. What was told
-- before somebody ordered it closed is over, though its process may not know that yet.
SELECT DISTINCT ON (resource) resource, process, extract(epoch FROM until - now())::float8, reason
FROM outlast.breakers AS known
WHERE resource = ANY(%(resources)s) AND state = 'open' AND until > now() AND process <> %(process)s
    AND reason <> %(by_hand)s AND NOT starts_with(reason, %(elsewhere)s)
    AND NOT EXISTS (
        SELECT FROM outlast.breaker_orders AS given
        WHERE given.resource = known.resource AND given.state = 'closed' AND given.ordered_at >= known.updated_at
    )
ORDER BY resource, until DESC, process
