-- What is not given stays.
UPDATE failure_groups
SET note = coalesce(:note, note),
    acknowledged_at = CASE :acknowledged WHEN 1 THEN :now WHEN 0 THEN NULL ELSE acknowledged_at END,
    acknowledged_by = CASE :acknowledged WHEN 1 THEN :who WHEN 0 THEN '' ELSE acknowledged_by END,
    snoozed_until = CASE WHEN :snooze IS NULL THEN snoozed_until WHEN :snooze > 0 THEN :now + :snooze END
WHERE fingerprint = :fingerprint
