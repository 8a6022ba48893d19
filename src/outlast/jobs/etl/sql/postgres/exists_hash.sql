-- A hash that is stored and was not applied, or by an older version, is still to be done.
SELECT 1 FROM {table}
WHERE source = %(source)s AND entity = %(entity)s AND source_id = %(source_id)s
  AND hash = %(hash)s AND applied_hash = %(hash)s
  AND (%(apply_version)s::bigint IS NULL OR apply_version >= %(apply_version)s::bigint)
