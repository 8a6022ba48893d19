-- name: create_lock
-- Two processes that create the table at once would conflict in the system catalog.
SELECT pg_advisory_xact_lock(hashtext('outlast.jobs.etl'), hashtext(%(table)s))

-- name: create
-- Ids are compared byte by byte (COLLATE "C"): faster, and the same order everywhere.
CREATE TABLE IF NOT EXISTS {table} (
    source text NOT NULL,
    entity text NOT NULL,
    source_id text COLLATE "C" NOT NULL,
    hash text NOT NULL,
    raw_key text NOT NULL,
    fetched_at timestamptz NOT NULL,
    applied_at timestamptz,
    applied_hash text,
    apply_version bigint,
    PRIMARY KEY (source, entity, source_id)
)

-- part: record
SELECT source, entity, source_id, hash, raw_key, fetched_at, applied_at, applied_hash, apply_version
FROM {table}
WHERE source = %(source)s AND entity = %(entity)s AND source_id = %(source_id)s

-- name: get
-- Without a lock, for readers.
{record}

-- name: get_locked
-- Nobody else changes the row until this transaction ends.
{record}
FOR UPDATE

-- name: exists_hash
-- A stored hash that was not applied, or only by an older version, does not count.
SELECT 1 FROM {table}
WHERE source = %(source)s AND entity = %(entity)s AND source_id = %(source_id)s
  AND hash = %(hash)s AND applied_hash = %(hash)s
  AND (%(apply_version)s::bigint IS NULL OR apply_version >= %(apply_version)s::bigint)

-- name: upsert
-- An older fetch never overwrites a newer one; of two at the same time the last wins. What was applied stays recorded.
INSERT INTO {table} AS stored (source, entity, source_id, hash, raw_key, fetched_at)
VALUES (%(source)s, %(entity)s, %(source_id)s, %(hash)s, %(raw_key)s, %(fetched_at)s)
ON CONFLICT (source, entity, source_id) DO UPDATE
SET hash = excluded.hash, raw_key = excluded.raw_key, fetched_at = excluded.fetched_at
WHERE excluded.fetched_at >= stored.fetched_at

-- name: mark_applied
-- Marks only the version of the record that was applied.
UPDATE {table}
SET applied_at = %(applied_at)s, applied_hash = hash, apply_version = %(apply_version)s
WHERE source = %(source)s AND entity = %(entity)s AND source_id = %(source_id)s AND hash = %(hash)s

-- name: outdated
-- One page by key, so no cursor stays open while targets are processed.
SELECT source_id FROM {table}
WHERE source = %(source)s AND entity = %(entity)s AND source_id > %(after)s
  AND (applied_hash IS DISTINCT FROM hash OR apply_version < %(apply_version)s)
ORDER BY source_id LIMIT %(limit)s
