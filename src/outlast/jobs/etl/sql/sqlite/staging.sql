-- name: create
-- Times are UTC text of one length, so they sort as times do.
CREATE TABLE IF NOT EXISTS {table} (
    source TEXT NOT NULL,
    entity TEXT NOT NULL,
    source_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    raw_key TEXT NOT NULL,
    fetched_at TEXT NOT NULL,
    applied_at TEXT,
    applied_hash TEXT,
    apply_version INTEGER,
    PRIMARY KEY (source, entity, source_id)
) STRICT, WITHOUT ROWID

-- name: get
-- Read inside the transaction that writes the record, and by readers outside of it.
SELECT source, entity, source_id, hash, raw_key, fetched_at, applied_at, applied_hash, apply_version
FROM {table}
WHERE source = :source AND entity = :entity AND source_id = :source_id

-- name: exists_hash
-- A stored hash that was not applied, or only by an older version, does not count.
SELECT 1 FROM {table}
WHERE source = :source AND entity = :entity AND source_id = :source_id
  AND hash = :hash AND applied_hash = :hash AND (:apply_version IS NULL OR apply_version >= :apply_version)

-- name: upsert
-- An older fetch never overwrites a newer one; of two at the same time the last wins. What was applied stays recorded.
INSERT INTO {table} AS stored (source, entity, source_id, hash, raw_key, fetched_at)
VALUES (:source, :entity, :source_id, :hash, :raw_key, :fetched_at)
ON CONFLICT (source, entity, source_id) DO UPDATE
SET hash = excluded.hash, raw_key = excluded.raw_key, fetched_at = excluded.fetched_at
WHERE excluded.fetched_at >= stored.fetched_at

-- name: mark_applied
-- Marks only the version of the record that was applied.
UPDATE {table}
SET applied_at = :applied_at, applied_hash = hash, apply_version = :apply_version
WHERE source = :source AND entity = :entity AND source_id = :source_id AND hash = :hash

-- name: outdated
-- One page by key, so no cursor stays open while targets are processed.
SELECT source_id FROM {table}
WHERE source = :source AND entity = :entity AND source_id > :after
  AND (applied_hash IS NULL OR applied_hash <> hash OR apply_version < :apply_version)
ORDER BY source_id LIMIT :limit
