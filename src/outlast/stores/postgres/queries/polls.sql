SELECT source_id, cycle, at, outcome, attempts, http_status, category, error, before, after
FROM outlast.source_polls WHERE source_id = %(id)s
ORDER BY id DESC LIMIT %(limit)s
