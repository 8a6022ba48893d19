known.fingerprint, known.task_type, error_type, error_category, error_message, first_seen,
    greatest(last_seen, recent.seen), (known.failures + recent.failures)::bigint, (known.dead + recent.dead)::bigint,
    note, acknowledged_at, acknowledged_by, snoozed_until
