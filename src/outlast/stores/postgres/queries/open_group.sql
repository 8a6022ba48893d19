(snoozed_until IS NULL OR snoozed_until <= now())
    AND (acknowledged_at IS NULL OR last_seen > acknowledged_at OR EXISTS (
        SELECT FROM outlast.task_flow AS delta
        WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint
            AND event IN (--failures--) AND at > acknowledged_at
    ))
