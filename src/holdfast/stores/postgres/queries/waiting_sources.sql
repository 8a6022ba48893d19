SELECT id, url FROM holdfast.sources
WHERE outcome = 'deferred' AND not_before > now() AND state <> 'disabled'
ORDER BY id LIMIT %(limit)s
