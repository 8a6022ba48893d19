SELECT source, entity, source_id, hash, raw_key, fetched_at, applied_at, applied_hash, apply_version
FROM {table}
WHERE source = :source AND entity = :entity AND source_id = :source_id
