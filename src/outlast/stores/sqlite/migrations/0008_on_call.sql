-- A paused periodic task is not enqueued by any worker. The task of its last run shows how that ended.
ALTER TABLE periodic ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE periodic ADD COLUMN last_task INTEGER;
ALTER TABLE failure_groups ADD COLUMN snoozed_by TEXT NOT NULL DEFAULT '';

-- Events that people mark on the charts, such as deploys. The oldest are deleted when one is added.
CREATE TABLE chart_marks (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    at   INTEGER NOT NULL,
    kind TEXT    NOT NULL,
    text TEXT    NOT NULL,
    who  TEXT    NOT NULL
) STRICT;
