-- A hash that is stored and was not applied, or by an older version, is still to be done.
SELECT 1 FROM {table}
WHERE source = :source AND entity = :entity AND source_id = :source_id
  AND hash = :hash AND applied_hash = :hash AND (:apply_version IS NULL OR apply_version >= :apply_version)
