UPDATE outlast.failure_groups
SET note = coalesce(%(note)s::text, note),
    acknowledged_at = CASE %(acknowledged)s::boolean WHEN true THEN now() WHEN false THEN NULL ELSE acknowledged_at END,
    acknowledged_by = CASE %(acknowledged)s::boolean WHEN true THEN %(who)s WHEN false THEN '' ELSE acknowledged_by END,
    snoozed_until = CASE
        WHEN %(snooze)s::float8 IS NULL THEN snoozed_until
        WHEN %(snooze)s::float8 > 0 THEN now() + make_interval(secs => %(snooze)s::float8)
    END
WHERE fingerprint = %(fingerprint)s
