-- Sources that are polled for years, the cycles in which it is done, and what is told of them. Times as in the first.
CREATE TABLE sources (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: alerts are kept under it
    url                  TEXT    NOT NULL,
    profile              TEXT    NOT NULL,
    name                 TEXT    NOT NULL DEFAULT '',
    selector             TEXT,
    state                TEXT    NOT NULL DEFAULT 'healthy'
                         CHECK (state IN ('healthy', 'warning', 'error', 'disabled', 'probation')),
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    failing_since        INTEGER,
    disabled_at          INTEGER,
    disabled_by          TEXT,
    probes               INTEGER NOT NULL DEFAULT 0,
    passed               INTEGER NOT NULL DEFAULT 0,
    last_success_at      INTEGER,
    last_failure_at      INTEGER,
    last_error           TEXT,
    last_failure         TEXT,                               -- JSON
    next_poll_at         INTEGER NOT NULL,
    not_before           INTEGER,
    etag                 TEXT,
    last_modified        TEXT,
    content_hash         TEXT,
    memory               TEXT,
    cycle                INTEGER NOT NULL DEFAULT 0,
    outcome              TEXT,
    pending              TEXT,                               -- JSON
    epoch                INTEGER NOT NULL DEFAULT 0,
    lease_owner          TEXT,
    leased_until         INTEGER,
    created_at           INTEGER NOT NULL,
    UNIQUE (profile, url)
) STRICT;

-- A look for what is due walks a range of these two: what is scheduled, cools down or was disabled is never touched.
CREATE INDEX sources_due ON sources (profile, max(next_poll_at, coalesce(not_before, 0))) WHERE state <> 'disabled';
CREATE INDEX sources_probed ON sources (profile, coalesce(not_before, 0)) WHERE state = 'disabled' AND disabled_by = 'rule';
CREATE INDEX sources_cycle ON sources (cycle, outcome);
CREATE INDEX sources_leased ON sources (lease_owner) WHERE lease_owner IS NOT NULL;

-- Append-only; the oldest lines of a source go when new ones come.
CREATE TABLE source_polls (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id   INTEGER NOT NULL,
    cycle       INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    outcome     TEXT    NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    http_status INTEGER,
    category    TEXT,
    error       TEXT,
    before      TEXT,
    after       TEXT
) STRICT;
CREATE INDEX source_polls_source ON source_polls (source_id, id);

CREATE TABLE cycles (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    profile      TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER,                                    -- not set while it runs
    sources      INTEGER NOT NULL,
    polled       INTEGER NOT NULL DEFAULT 0,
    changed      INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    deferred     INTEGER NOT NULL DEFAULT 0,
    outage_since INTEGER
) STRICT;
CREATE UNIQUE INDEX cycles_running ON cycles (profile) WHERE ended_at IS NULL;
CREATE INDEX cycles_profile ON cycles (profile, id);

CREATE TABLE alerts (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    key          TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('first', 'changed', 'reminder', 'recovered')),
    state        TEXT,                                       -- not set for well again
    title        TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    epoch        INTEGER NOT NULL DEFAULT 0,
    deliveries   INTEGER NOT NULL DEFAULT 0,
    delivered_to TEXT    NOT NULL DEFAULT '[]',              -- JSON
    due_at       INTEGER NOT NULL,
    leased_until INTEGER,
    delivered_at INTEGER,                                    -- not set while it waits
    last_error   TEXT,
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX alerts_key ON alerts (key, id);
CREATE INDEX alerts_waiting ON alerts (id) WHERE delivered_at IS NULL;
CREATE INDEX alerts_waiting_by_key ON alerts (key, id) WHERE delivered_at IS NULL;
CREATE INDEX alerts_done ON alerts (delivered_at) WHERE delivered_at IS NOT NULL;

ALTER TABLE cooldowns ADD COLUMN capped INTEGER NOT NULL DEFAULT 0;   -- answers in a row that asked for too long
ALTER TABLE cooldowns ADD COLUMN probing INTEGER NOT NULL DEFAULT 0;  -- it is the time of a probe
