INSERT INTO source_polls (source_id, cycle, at, outcome, attempts, http_status, category, error, before, after)
VALUES (:source_id, :cycle, :at, :outcome, :attempts, :http_status, :category, :error, :before, :after)
