-- name: prune_tasks
-- By id, oldest first, from where the last batch ended: an index on the end time would make every success more
-- expensive.
WITH old AS MATERIALIZED (
    SELECT id FROM {schema}task_queue
    WHERE id > %(after)s AND status IN ('DONE', 'CANCELLED', 'DISCARDED') AND finished_at < now() - make_interval(secs => %(seconds)s)
    ORDER BY id LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
),
history AS (
    DELETE FROM {schema}task_attempts AS attempt USING old WHERE attempt.task_id = old.id
),
edits AS (
    DELETE FROM {schema}payload_edits AS edit USING old WHERE edit.task_id = old.id
),
deleted AS (
    DELETE FROM {schema}task_queue AS task USING old WHERE task.id = old.id RETURNING task.id, task.status
),
counted AS (
    INSERT INTO {schema}task_flow (event, n) SELECT 'pruned_' || lower(status), count(*) FROM deleted GROUP BY status
)
SELECT count(*), max(id) FROM deleted

-- name: prune_results
-- In batches. A locked row is in use: skipped.
WITH old AS MATERIALIZED (
    SELECT task_id FROM {schema}task_results WHERE expires_at <= now() LIMIT %(batch)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}task_results AS result USING old WHERE result.task_id = old.task_id

-- name: prune_limits
-- Limits that nobody asked for, and whose places are over: the state of a new row is the same. A locked row is in use.
WITH old AS MATERIALIZED (
    SELECT resource FROM {schema}resource_limits
    WHERE greatest(asked_at, tat, spread, slot_spread, retry_tat, retry_spread, retry_again)
        < extract(epoch FROM now())::double precision - %(seconds)s
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}resource_limits AS known USING old WHERE known.resource = old.resource

-- name: prune_slots
-- Slots of resources that nobody asks for any more; the others are deleted when somebody asks.
WITH old AS MATERIALIZED (
    SELECT task_id, epoch FROM {schema}resource_slots AS slot
    WHERE (
        SELECT task.status || '' = 'RUNNING' AND task.lease_epoch = slot.epoch
        FROM {schema}task_queue AS task WHERE task.id = slot.task_id
    ) IS NOT TRUE
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}resource_slots AS slot USING old WHERE slot.task_id = old.task_id AND slot.epoch = old.epoch

-- name: expired_dead_letters
-- Locked until the caller has discarded them. A locked row is being replayed or discarded: skipped.
SELECT id FROM {schema}dead_letter_queue
WHERE moved_to_dlq_at < now() - make_interval(secs => %(seconds)s)
ORDER BY moved_to_dlq_at LIMIT %(batch)s
FOR UPDATE SKIP LOCKED

-- name: prune_groups
-- Groups without dead letters, recent failures or a note. Their alerts go too, so a group that returns is announced
-- again.
WITH old AS MATERIALIZED (
    SELECT fingerprint FROM {schema}failure_groups AS known
    WHERE last_seen < now() - make_interval(secs => %(seconds)s) AND dead <= 0 AND note = ''
        AND NOT EXISTS (
            SELECT FROM {schema}task_flow AS delta
            WHERE span = 0 AND delta.fingerprint <> '' AND delta.fingerprint = known.fingerprint
        )
    ORDER BY last_seen LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
),
alerts AS (
    DELETE FROM {schema}alerts AS alert USING old
    WHERE alert.key IN ('group:' || old.fingerprint, 'growth:' || old.fingerprint) AND delivered_at IS NOT NULL
)
DELETE FROM {schema}failure_groups AS known USING old WHERE known.fingerprint = old.fingerprint

-- name: prune_alerts
-- The first and the last alert of a key stay until it has recovered: they say since when and what. Then the last one goes
-- with or after all earlier ones, otherwise one of those would become the last.
WITH old AS MATERIALIZED (
    SELECT id FROM {schema}alerts AS one
    WHERE delivered_at < now() - %(age)s
        AND (
            EXISTS (
                SELECT FROM {schema}alerts AS later WHERE later.key = one.key AND later.id > one.id
                    AND (one.kind <> 'first' OR later.kind = 'recovered')
            )
            OR kind = 'recovered' AND NOT EXISTS (
                SELECT FROM {schema}alerts AS earlier
                WHERE earlier.key = one.key AND earlier.id < one.id
                    AND (earlier.delivered_at < now() - %(age)s) IS NOT TRUE
            )
        )
    ORDER BY id
    FOR UPDATE
)
DELETE FROM {schema}alerts AS alert USING old WHERE alert.id = old.id

-- name: prune_breakers
-- Those of unknown workers, and of other processes that have not reported for a long time.
DELETE FROM {schema}breakers
WHERE CASE
    WHEN is_worker THEN process NOT IN (SELECT id FROM {schema}workers)
    ELSE updated_at < now() - make_interval(secs => %(seconds)s)
END

-- name: prune_cycles
-- Reads back only to the last cycle that is kept, however long the history is.
DELETE FROM {schema}cycles
WHERE profile = %(profile)s AND ended_at IS NOT NULL AND id <= (
    SELECT id FROM {schema}cycles
    WHERE profile = %(profile)s AND ended_at IS NOT NULL
    ORDER BY id DESC LIMIT 1 OFFSET %(kept)s
)

-- name: expired_runs
-- The runs are deleted one by one, each with its targets first.
SELECT id FROM {schema}job_runs
WHERE ended_at < now() - make_interval(secs => %(seconds)s)
ORDER BY ended_at

-- name: prune_targets
-- Starts where the last batch ended, past rows that are deleted but not vacuumed. A run that was reopened keeps its
-- targets.
WITH old AS MATERIALIZED (
    SELECT id FROM {schema}job_runs
    WHERE id = %(id)s AND ended_at < now() - make_interval(secs => %(seconds)s)
    FOR UPDATE
),
batch AS MATERIALIZED (
    SELECT target.source_id FROM {schema}job_targets AS target
    WHERE target.run_id = (SELECT id FROM old) AND target.source_id >= coalesce(%(after)s::text, '')
        AND target.source_id IS DISTINCT FROM %(after)s::text
    ORDER BY target.source_id LIMIT %(batch)s
),
deleted AS (
    DELETE FROM {schema}job_targets AS target USING batch
    WHERE target.run_id = %(id)s AND target.source_id = batch.source_id
    RETURNING target.source_id
)
SELECT count(*), max(source_id) FROM deleted

-- name: prune_run
-- Only without targets: a run that was reopened meanwhile, or has more targets, stays.
DELETE FROM {schema}job_runs AS run
WHERE run.id = %(id)s AND run.ended_at < now() - make_interval(secs => %(seconds)s)
    AND NOT EXISTS (SELECT FROM {schema}job_targets AS target WHERE target.run_id = run.id)
