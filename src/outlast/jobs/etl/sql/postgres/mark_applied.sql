-- Only the version of the record that was applied is marked.
UPDATE {table}
SET applied_at = %(applied_at)s, applied_hash = hash, apply_version = %(apply_version)s
WHERE source = %(source)s AND entity = %(entity)s AND source_id = %(source_id)s AND hash = %(hash)s
