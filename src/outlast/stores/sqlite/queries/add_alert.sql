INSERT INTO alerts (key, kind, state, title, text, due_at, created_at)
VALUES (:key, :kind, :state, :title, :text, :now, :now)
