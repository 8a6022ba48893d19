-- One page by the key, so that no cursor stays open while targets are worked on.
SELECT source_id FROM {table}
WHERE source = :source AND entity = :entity AND source_id > :after
  AND (applied_hash IS NULL OR applied_hash <> hash OR apply_version < :apply_version)
ORDER BY source_id LIMIT :limit
