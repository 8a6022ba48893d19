SELECT source_id, cycle, at, outcome, attempts, http_status, category, error, before, after
FROM source_polls INDEXED BY source_polls_source WHERE source_id = :source_id ORDER BY id DESC LIMIT :limit
