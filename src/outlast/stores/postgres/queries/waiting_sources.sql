SELECT id, url FROM outlast.sources
WHERE outcome = 'deferred' AND not_before > now() AND state <> 'disabled'
ORDER BY id LIMIT %(limit)s
