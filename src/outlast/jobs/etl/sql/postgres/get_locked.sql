-- Nobody else changes the row until this transaction ends.
SELECT source, entity, source_id, hash, raw_key, fetched_at, applied_at, applied_hash, apply_version
FROM {table}
WHERE source = %(source)s AND entity = %(entity)s AND source_id = %(source_id)s
FOR UPDATE
