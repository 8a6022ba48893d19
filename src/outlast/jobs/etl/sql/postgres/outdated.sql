-- One page by the key, so that no cursor stays open while targets are worked on.
SELECT source_id FROM {table}
WHERE source = %(source)s AND entity = %(entity)s AND source_id > %(after)s
  AND (applied_hash IS DISTINCT FROM hash OR apply_version < %(apply_version)s)
ORDER BY source_id LIMIT %(limit)s
