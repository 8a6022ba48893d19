-- Runs of batch jobs, and what became of their targets. Times as in the first.
CREATE TABLE job_runs (
    id         TEXT    NOT NULL PRIMARY KEY,
    job        TEXT    NOT NULL,
    entity     TEXT,
    env        TEXT    NOT NULL,
    parent     TEXT,
    state      TEXT    NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'aborted', 'stopped')),
    total      INTEGER NOT NULL DEFAULT 0,
    exit_code  INTEGER,
    summary    TEXT,                               -- JSON
    started_at INTEGER NOT NULL,
    ended_at   INTEGER                             -- not set while it runs
) STRICT, WITHOUT ROWID;
CREATE INDEX job_runs_job ON job_runs (job, started_at, id);
CREATE INDEX job_runs_started ON job_runs (started_at, id);
CREATE INDEX job_runs_ended ON job_runs (ended_at) WHERE ended_at IS NOT NULL;

-- One tree instead of two: a batch in the order of its ids is written side by side, and no number is drawn.
CREATE TABLE job_targets (
    run_id        TEXT    NOT NULL,
    source_id     TEXT    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('success', 'failed', 'deferred', 'skipped')),
    attempts      INTEGER NOT NULL,
    target        TEXT,                            -- JSON
    error_type    TEXT,
    error_message TEXT,
    category      TEXT,
    origin        TEXT,
    http_status   INTEGER,
    fingerprint   TEXT,
    retry_at      INTEGER,
    finished_at   INTEGER NOT NULL,
    PRIMARY KEY (run_id, source_id)
) STRICT, WITHOUT ROWID;
-- What is left to do, in the order in which it is read; successes cost nothing here and are never met.
CREATE INDEX job_targets_left ON job_targets (run_id, source_id, status, fingerprint)
    WHERE status IN ('failed', 'deferred');
