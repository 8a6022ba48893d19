UPDATE alerts
SET delivered_to = :delivered_to, last_error = :error, leased_until = NULL,
    due_at = coalesce(:due, due_at), delivered_at = CASE WHEN :due IS NULL THEN :now END
WHERE id = :id AND epoch = :epoch AND delivered_at IS NULL
