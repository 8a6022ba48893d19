-- From the first of an order on; whoever reads it stops. The deltas that are not over are added to the counts.
SELECT --order--, failure_groups.fingerprint, task_type, error_type, error_category, error_message, first_seen,
    max(failure_groups.last_seen, coalesce(fresh.last_seen, 0)), failure_groups.failures + coalesce(fresh.failures, 0),
    failure_groups.dead + coalesce(fresh.dead, 0), note, acknowledged_at, acknowledged_by, snoozed_until
FROM failure_groups INDEXED BY --index--
LEFT JOIN (--fresh--) AS fresh ON fresh.cause = failure_groups.fingerprint
WHERE (--order--, failure_groups.fingerprint) < (:value, :fingerprint) --by--
ORDER BY --order-- DESC, failure_groups.fingerprint DESC
