-- Times are UTC milliseconds since the epoch, flags are 0 or 1.
CREATE TABLE task_queue (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    task_type      TEXT    NOT NULL,
    queue          TEXT    NOT NULL DEFAULT 'default',
    priority       INTEGER NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
    parameters     TEXT    NOT NULL DEFAULT '{}',
    status         TEXT    NOT NULL DEFAULT 'QUEUED'
                   -- one by one, the frequent ones first: IN makes a table of its own for every row that is written
                   CHECK (status = 'QUEUED' OR status = 'RUNNING' OR status = 'DONE' OR status = 'PARKED'
                       OR status = 'FAILED' OR status = 'CANCELLED' OR status = 'DISCARDED'),
    resource       TEXT,
    unique_key     TEXT,
    attempt        INTEGER NOT NULL DEFAULT 0,  -- starts
    retry_count    INTEGER NOT NULL DEFAULT 0,  -- failed attempts
    crash_count    INTEGER NOT NULL DEFAULT 0,  -- workers that died while it ran alone
    suspect        INTEGER NOT NULL DEFAULT 0,  -- it was running when a worker died
    alone          INTEGER NOT NULL DEFAULT 0,  -- it runs alone now
    lease_epoch    INTEGER NOT NULL DEFAULT 0,
    worker_id      TEXT,
    deferrals      INTEGER NOT NULL DEFAULT 0,
    replays        INTEGER NOT NULL DEFAULT 0,
    last_error     TEXT,
    next_run_after INTEGER NOT NULL DEFAULT 0,
    deferred_at    INTEGER,                     -- first put off without an attempt spent
    expires_at     INTEGER,
    started_at     INTEGER,
    failed_at      INTEGER,
    finished_at    INTEGER,
    created_at     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    updated_at     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
) STRICT;

-- A claim walks this one, a range per priority and queue: what is scheduled, cooling or finished is never touched.
CREATE INDEX task_queue_ready ON task_queue (queue, priority, next_run_after, id)
    WHERE status = 'QUEUED' AND suspect = 0;
CREATE INDEX task_queue_suspects ON task_queue (queue, next_run_after, id) WHERE status = 'QUEUED' AND suspect = 1;
CREATE INDEX task_queue_held ON task_queue (worker_id) WHERE status = 'RUNNING';
CREATE INDEX task_queue_resource ON task_queue (resource, next_run_after)
    WHERE status = 'QUEUED' AND resource IS NOT NULL;
CREATE INDEX task_queue_parked ON task_queue (task_type) WHERE status = 'PARKED';
CREATE UNIQUE INDEX task_queue_unique ON task_queue (task_type, unique_key)
    WHERE unique_key IS NOT NULL AND status IN ('QUEUED', 'RUNNING', 'PARKED');

-- Append-only; failed attempts alone, so that success stays cheap.
CREATE TABLE task_attempts (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id        INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    outcome        TEXT    NOT NULL,
    worker_id      TEXT,
    started_at     INTEGER,
    finished_at    INTEGER NOT NULL,
    error_type     TEXT    NOT NULL,
    error_message  TEXT    NOT NULL,
    error_category TEXT    NOT NULL,
    fingerprint    TEXT    NOT NULL,
    delay          REAL,
    traceback      TEXT    NOT NULL,
    failure        TEXT    NOT NULL
) STRICT;
CREATE INDEX task_attempts_task ON task_attempts (task_id, id);

CREATE TABLE task_results (
    task_id    INTEGER PRIMARY KEY,
    result     TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX task_results_expiry ON task_results (expires_at);

CREATE TABLE dead_letter_queue (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    original_task_id INTEGER NOT NULL UNIQUE,
    task_type        TEXT    NOT NULL,
    queue            TEXT    NOT NULL,
    priority         INTEGER NOT NULL,
    parameters       TEXT    NOT NULL,
    resource         TEXT,
    unique_key       TEXT,
    error_type       TEXT    NOT NULL,
    error_message    TEXT    NOT NULL,
    error_category   TEXT    NOT NULL,
    reason           TEXT    NOT NULL,
    fingerprint      TEXT    NOT NULL,
    traceback        TEXT    NOT NULL,
    failure          TEXT    NOT NULL,
    retry_count      INTEGER NOT NULL,
    crash_count      INTEGER NOT NULL,
    replays          INTEGER NOT NULL,
    worker_id        TEXT,
    created_at       INTEGER NOT NULL,
    moved_to_dlq_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX dead_letter_queue_groups ON dead_letter_queue (fingerprint, moved_to_dlq_at);
CREATE INDEX dead_letter_queue_moved ON dead_letter_queue (moved_to_dlq_at);

CREATE TABLE workers (
    id           TEXT PRIMARY KEY,
    name         TEXT    NOT NULL,
    host         TEXT    NOT NULL,
    pid          INTEGER NOT NULL,
    queues       TEXT    NOT NULL,
    concurrency  INTEGER NOT NULL,
    state        TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE queues (
    name   TEXT PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE cooldowns (
    resource TEXT PRIMARY KEY,
    until    INTEGER NOT NULL,
    reason   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE periodic (
    name        TEXT PRIMARY KEY,
    next_run_at INTEGER NOT NULL,
    last_run_at INTEGER
) STRICT, WITHOUT ROWID;
