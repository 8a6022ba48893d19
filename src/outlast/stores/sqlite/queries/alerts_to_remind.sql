-- The newest of each key alone counts, and no group that is snoozed or acknowledged now.
SELECT key, state, title, text FROM alerts INDEXED BY alerts_done
WHERE delivered_at <= :before AND kind <> 'recovered'
    AND NOT EXISTS (SELECT 1 FROM alerts AS newer WHERE newer.key = alerts.key AND newer.id > alerts.id)
    AND NOT EXISTS (
        SELECT 1 FROM failure_groups
        WHERE fingerprint = CASE WHEN key GLOB 'group:*' THEN substr(key, 7) WHEN key GLOB 'growth:*' THEN substr(key, 8) END
            AND (snoozed_until > :now OR acknowledged_at >= max(last_seen, coalesce((
                SELECT max(seen) FROM task_flow
                WHERE span = 0 AND task_flow.fingerprint = failure_groups.fingerprint
                    AND event NOT IN ('replayed', 'discarded')
            ), 0)))
    )
ORDER BY id
