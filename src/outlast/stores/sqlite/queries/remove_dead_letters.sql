DELETE FROM dead_letter_queue WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING task_type, error_category, fingerprint
