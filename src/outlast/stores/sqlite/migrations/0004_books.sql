-- The books: what happened to tasks, kept where it happens, so that nobody has to count what is over. Times as in the first.
-- A delta (span 0) is written in the transaction of what it tells of, at the begin of its ten seconds. Once those are over it is
-- added to the flow (span 10, then 600, then 86400 seconds; by event and category alone), to what was ever (span -1, at 0; by
-- task too), and to the group of its failure. One tree, in the order in which it is read: whoever writes touches one page of it.
CREATE TABLE task_flow (
    span        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    event       TEXT    NOT NULL,
    task_type   TEXT    NOT NULL DEFAULT '',
    category    TEXT    NOT NULL DEFAULT '',
    fingerprint TEXT    NOT NULL DEFAULT '',
    n           INTEGER NOT NULL,
    seen        INTEGER NOT NULL,                   -- when it happened last
    PRIMARY KEY (span, at, event, task_type, category, fingerprint)
) STRICT, WITHOUT ROWID;

-- What is enqueued costs nothing here: tasks are numbered in the order of their commits, so those behind the last one that is in
-- the books are new, whoever added them.
CREATE TABLE counted_tasks (up_to INTEGER NOT NULL) STRICT;
INSERT INTO counted_tasks SELECT coalesce(max(id), 0) FROM task_queue;

-- Counts are those of deltas that are over; the others are added when it is read.
CREATE TABLE failure_groups (
    fingerprint    TEXT    NOT NULL PRIMARY KEY,
    task_type      TEXT    NOT NULL,
    error_type     TEXT    NOT NULL,
    error_category TEXT    NOT NULL,
    error_message  TEXT    NOT NULL,
    first_seen     INTEGER NOT NULL,
    last_seen      INTEGER NOT NULL,
    failures       INTEGER NOT NULL DEFAULT 0,
    dead           INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX failure_groups_latest ON failure_groups (last_seen, fingerprint);
CREATE INDEX failure_groups_largest ON failure_groups (failures, fingerprint);
CREATE INDEX failure_groups_first ON failure_groups (first_seen);
CREATE INDEX failure_groups_category_latest ON failure_groups (error_category, last_seen, fingerprint);
CREATE INDEX failure_groups_category_largest ON failure_groups (error_category, failures, fingerprint);
CREATE INDEX failure_groups_task_latest ON failure_groups (task_type, last_seen, fingerprint);
CREATE INDEX failure_groups_task_largest ON failure_groups (task_type, failures, fingerprint);

CREATE TABLE failure_flow (
    fingerprint TEXT    NOT NULL,
    span        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    event       TEXT    NOT NULL,
    n           INTEGER NOT NULL,
    PRIMARY KEY (fingerprint, span, at, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX failure_flow_age ON failure_flow (span, at);

CREATE TABLE breakers (
    resource   TEXT    NOT NULL,
    process    TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    before     TEXT    NOT NULL DEFAULT '',         -- the state it had
    until      INTEGER,
    reason     TEXT    NOT NULL,
    is_worker  INTEGER NOT NULL,                    -- it is gone when the worker is
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (resource, process)
) STRICT, WITHOUT ROWID;
CREATE INDEX breakers_process ON breakers (process);

CREATE TABLE breaker_orders (
    resource   TEXT    NOT NULL PRIMARY KEY,
    number     INTEGER NOT NULL UNIQUE,
    state      TEXT    NOT NULL CHECK (state IN ('closed', 'open')),
    until      INTEGER,                             -- not set for until it is closed by hand
    ordered_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Lists. What succeeds touches none of these.
CREATE INDEX task_queue_retries ON task_queue (next_run_after) WHERE status = 'QUEUED' AND retry_count > 0;
CREATE INDEX task_attempts_groups ON task_attempts (fingerprint, id);
DROP INDEX dead_letter_queue_groups;
CREATE INDEX dead_letter_queue_fingerprint ON dead_letter_queue (fingerprint);  -- each ends with the number
CREATE INDEX dead_letter_queue_task ON dead_letter_queue (task_type);
CREATE INDEX dead_letter_queue_category ON dead_letter_queue (error_category);
CREATE INDEX dead_letter_queue_reason ON dead_letter_queue (reason);
CREATE INDEX dead_letter_queue_queue ON dead_letter_queue (queue);
CREATE INDEX sources_state ON sources (state);
CREATE INDEX source_polls_changes ON source_polls (at) WHERE after IS NOT NULL;
CREATE INDEX job_runs_running ON job_runs (started_at) WHERE ended_at IS NULL;

-- What is there already. What was replayed before is not known: neither its first end nor its second begin is counted.
INSERT INTO task_flow (span, at, event, task_type, category, n, seen)
SELECT -1, 0, 'failed', task_type, error_category, count(*), max(moved_to_dlq_at)
FROM dead_letter_queue GROUP BY task_type, error_category;
INSERT INTO task_flow (span, at, event, task_type, n, seen)
SELECT -1, 0, event.value, task_type, count(*), max(updated_at)
FROM task_queue CROSS JOIN json_each('["failed", "discarded"]') AS event
WHERE status = 'DISCARDED' GROUP BY event.value, task_type;
INSERT INTO task_flow (span, at, event, n, seen)
SELECT -1, 0, lower(status), count(*), max(updated_at)
FROM task_queue WHERE status IN ('DONE', 'CANCELLED') GROUP BY status;
INSERT INTO task_flow (span, at, event, n, seen)
SELECT -1, 0, 'enqueued', n + coalesce((SELECT sum(n) FROM task_flow WHERE event IN ('done', 'cancelled', 'failed')), 0), coalesce(seen, 0)
FROM (
    SELECT count(*) AS n, max(created_at) AS seen FROM task_queue WHERE status IN ('QUEUED', 'RUNNING', 'PARKED')
)
WHERE seen IS NOT NULL OR EXISTS (SELECT 1 FROM task_flow);

-- min() makes SQLite take the bare columns from the first row of each group.
INSERT INTO failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, failures, dead)
SELECT fingerprint, task_type, error_type, error_category, error_message, moved_to_dlq_at, last_seen,
    max(dead, (SELECT count(*) FROM task_attempts WHERE task_attempts.fingerprint = letters.fingerprint)), dead
FROM (
    SELECT fingerprint, task_type, error_type, error_category, error_message, moved_to_dlq_at, min(id),
        count(*) AS dead, (
            SELECT max(moved_to_dlq_at) FROM dead_letter_queue AS all_of
            WHERE all_of.fingerprint = dead_letter_queue.fingerprint
        ) AS last_seen
    FROM dead_letter_queue WHERE fingerprint <> '' GROUP BY fingerprint
) AS letters;

-- A worker of an older version would change tasks without a word in the books. Its row is gone after a migration, and without
-- this column it gets no other.
DELETE FROM workers;
ALTER TABLE workers ADD COLUMN schema_version INTEGER NOT NULL;
