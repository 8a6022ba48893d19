-- Those that are open now and not over, oldest first.
SELECT fingerprint, task_type, error_type, error_category, error_message, first_seen,
    max(failure_groups.last_seen, coalesce(fresh.last_seen, 0)) AS seen,
    failure_groups.failures + coalesce(fresh.failures, 0), failure_groups.dead + coalesce(fresh.dead, 0), note,
    acknowledged_at, acknowledged_by, snoozed_until
FROM failure_groups INDEXED BY failure_groups_untold
LEFT JOIN (--fresh--) AS fresh ON fresh.cause = failure_groups.fingerprint
WHERE told = 0 AND coalesce(snoozed_until, 0) <= :now AND (acknowledged_at IS NULL OR seen > acknowledged_at)
    AND (:since IS NULL OR seen >= :since OR failure_groups.dead + coalesce(fresh.dead, 0) > 0)
    AND NOT EXISTS (SELECT 1 FROM alerts INDEXED BY alerts_key WHERE key = 'group:' || failure_groups.fingerprint)
ORDER BY first_seen LIMIT :limit
