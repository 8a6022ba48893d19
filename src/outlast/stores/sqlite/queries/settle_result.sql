INSERT INTO task_results (task_id, result, expires_at) VALUES (:id, :result, :now + :keep)
ON CONFLICT (task_id) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at
