DELETE FROM task_results WHERE task_id IN (SELECT task_id FROM task_results WHERE expires_at <= :now LIMIT :batch)
