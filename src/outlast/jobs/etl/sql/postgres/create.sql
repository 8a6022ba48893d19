-- Ids are compared byte by byte, which is quicker and the same everywhere.
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
