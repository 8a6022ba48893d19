INSERT INTO source_polls (source_id, cycle, at, outcome, http_status, category, error)
SELECT id, cycle, :now, 'withdrawn', pending ->> 'http_status', pending ->> 'category', pending ->> 'message'
FROM sources INDEXED BY sources_cycle WHERE cycle = :cycle AND pending IS NOT NULL
