-- Along the index of one condition or the table itself, no further than told. The others are looked at on the way.
SELECT id,
    (:task_type IS NULL OR task_type = :task_type)
    AND (:queue IS NULL OR queue = :queue)
    AND (:category IS NULL OR error_category = :category)
    AND (:reason IS NULL OR reason = :reason)
    AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
    AND (:since IS NULL OR moved_to_dlq_at >= :since)
    AND (:until IS NULL OR moved_to_dlq_at < :until)
    AND CASE WHEN :text IS NULL THEN 1 ELSE holds(:text, error_type, error_message) END AS fits
FROM dead_letter_queue --along--
WHERE id < :before AND id >= :least --by--
ORDER BY id --order--
