-- What was told before somebody ordered it closed is over, though its process may not know that yet. Of several columns
-- beside max() SQLite takes those of the row that has it.
SELECT resource, process, (max(until) - :now) / 1000.0, reason
FROM breakers AS known
WHERE resource IN (SELECT value FROM json_each(:resources)) AND state = 'open' AND until > :now AND process <> :process
    AND reason <> :by_hand AND substr(reason, 1, length(:elsewhere)) <> :elsewhere
    AND NOT EXISTS (
        SELECT 1 FROM breaker_orders AS given
        WHERE given.resource = known.resource AND given.state = 'closed' AND given.ordered_at >= known.updated_at
    )
GROUP BY resource
ORDER BY resource
