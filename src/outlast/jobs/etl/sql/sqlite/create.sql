-- Times are text in UTC of one length, which sorts as they do.
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
