INSERT INTO payload_edits (task_id, before, after, patch, who, reason, at)
VALUES (:task_id, :before, :after, :patch, :who, :reason, :now)
