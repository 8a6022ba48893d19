-- Runs of batch jobs, and what became of their targets. JSON as in the second.
CREATE TABLE {schema}job_runs (
    started_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz, -- not set while it runs
    total      bigint      NOT NULL DEFAULT 0,
    exit_code  integer,
    id         text        COLLATE "C" NOT NULL,
    job        text        COLLATE "C" NOT NULL,
    entity     text,
    env        text        NOT NULL,
    parent     text        COLLATE "C",
    state      text        COLLATE "C" NOT NULL DEFAULT 'running',
    summary    text,
    CONSTRAINT job_runs_pkey PRIMARY KEY (id),
    CONSTRAINT job_runs_state CHECK (state IN ('running', 'done', 'aborted', 'stopped'))
);
CREATE INDEX job_runs_job ON {schema}job_runs (job, started_at, id);
CREATE INDEX job_runs_started ON {schema}job_runs (started_at, id);
CREATE INDEX job_runs_ended ON {schema}job_runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE {schema}job_targets (
    retry_at      timestamptz,
    finished_at   timestamptz NOT NULL DEFAULT now(),
    attempts      integer     NOT NULL,
    http_status   integer,
    run_id        text        COLLATE "C" NOT NULL,
    source_id     text        COLLATE "C" NOT NULL,
    status        text        COLLATE "C" NOT NULL,
    target        text,
    error_type    text,
    error_message text,
    category      text,
    origin        text,
    fingerprint   text        COLLATE "C",
    CONSTRAINT job_targets_pkey PRIMARY KEY (run_id, source_id),
    CONSTRAINT job_targets_status CHECK (status IN ('success', 'failed', 'deferred', 'skipped'))
);
-- What is left to do, in the order in which it is read; successes cost nothing here and are never met.
CREATE INDEX job_targets_left ON {schema}job_targets (run_id, source_id) INCLUDE (status, fingerprint)
    WHERE status IN ('failed', 'deferred');
