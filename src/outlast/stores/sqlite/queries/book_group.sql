-- The first failure of a cause makes its group. The counts come with the deltas.
INSERT INTO failure_groups (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
ON CONFLICT DO NOTHING
