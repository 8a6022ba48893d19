-- An older fetch never overwrites a newer one; of two at the same moment the last wins. What was applied stays noted.
INSERT INTO {table} AS stored (source, entity, source_id, hash, raw_key, fetched_at)
VALUES (:source, :entity, :source_id, :hash, :raw_key, :fetched_at)
ON CONFLICT (source, entity, source_id) DO UPDATE
SET hash = excluded.hash, raw_key = excluded.raw_key, fetched_at = excluded.fetched_at
WHERE excluded.fetched_at >= stored.fetched_at
