-- Only the version of the record that was applied is marked.
UPDATE {table}
SET applied_at = :applied_at, applied_hash = hash, apply_version = :apply_version
WHERE source = :source AND entity = :entity AND source_id = :source_id AND hash = :hash
