-- Replays in steps, edits of arguments, what people say of groups, and who asked for what. Times as in the first.
CREATE TABLE replays (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    which        TEXT    NOT NULL,                  -- JSON
    canary       INTEGER NOT NULL,
    rate         REAL,                              -- tasks per second
    state        TEXT    NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'cancelled')),
    stage        INTEGER NOT NULL DEFAULT 0,
    total        INTEGER NOT NULL,
    newest       INTEGER NOT NULL,
    cursor       INTEGER NOT NULL,
    replayed     INTEGER NOT NULL DEFAULT 0,
    conflicts    INTEGER NOT NULL DEFAULT 0,
    conflict_ids TEXT    NOT NULL DEFAULT '[]',     -- JSON
    stopped_by   TEXT    NOT NULL DEFAULT '',
    who          TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    epoch        INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    bound        INTEGER NOT NULL,                  -- newest at its begin; behind it are its own failures alone
    forgiven     INTEGER NOT NULL DEFAULT 0,        -- dead letters up to this number stop it no more
    lease_owner  TEXT,
    leased_until INTEGER
) STRICT;
CREATE INDEX replays_running ON replays (id) WHERE state = 'running';

-- Constant defaults: no row is written. What no replay has queued is in neither index.
ALTER TABLE task_queue ADD COLUMN replay_id INTEGER;
ALTER TABLE task_queue ADD COLUMN canary INTEGER NOT NULL DEFAULT 0;  -- it gets one attempt
ALTER TABLE dead_letter_queue ADD COLUMN replay_id INTEGER;           -- of the task when it died
CREATE INDEX task_queue_canaries ON task_queue (replay_id) WHERE canary = 1;
CREATE INDEX dead_letter_queue_replays ON dead_letter_queue (replay_id) WHERE replay_id IS NOT NULL;

CREATE TABLE payload_edits (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL,
    before  TEXT    NOT NULL,
    after   TEXT    NOT NULL,
    patch   TEXT    NOT NULL,
    who     TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
CREATE INDEX payload_edits_task ON payload_edits (task_id);

-- Append-only.
CREATE TABLE audit_log (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    who     TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    detail  TEXT    NOT NULL,                       -- JSON
    reason  TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_log_subject ON audit_log (subject);
CREATE INDEX audit_log_action ON audit_log (action);

ALTER TABLE failure_groups ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE failure_groups ADD COLUMN acknowledged_at INTEGER;
ALTER TABLE failure_groups ADD COLUMN acknowledged_by TEXT NOT NULL DEFAULT '';
ALTER TABLE failure_groups ADD COLUMN snoozed_until INTEGER;
ALTER TABLE failure_groups ADD COLUMN told INTEGER NOT NULL DEFAULT 0;  -- an alert of it was seen
UPDATE failure_groups SET told = 1;                                     -- what was there before is no news
CREATE INDEX failure_groups_untold ON failure_groups (first_seen) WHERE told = 0;

-- Few values, each in many rows: a walk finds them as soon, and every dead letter paid for the two.
DROP INDEX dead_letter_queue_reason;
DROP INDEX dead_letter_queue_queue;
