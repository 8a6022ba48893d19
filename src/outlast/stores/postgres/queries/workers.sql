-- name: add_worker
-- Not on tables of another version: a worker that lost its lease to a migration does not get a new one.
INSERT INTO {schema}workers
    (id, name, host, pid, queues, concurrency, state, started_at, heartbeat_at, expires_at, schema_version)
SELECT
    %(id)s, %(name)s, %(host)s, %(pid)s, %(queues)s::text[], %(concurrency)s, %(state)s, now(), now(),
    now() + make_interval(secs => %(lease)s), %(schema_version)s
WHERE %(schema_version)s = (SELECT max(version) FROM {schema}schema_version)

-- name: heartbeat
-- If no row changes, the lease is lost: the worker was deleted meanwhile.
UPDATE {schema}workers
SET heartbeat_at = now(), expires_at = now() + %(lease)s, state = %(state)s
WHERE id = %(id)s

-- name: workers
-- Counts running tasks by their partial index.
SELECT id, name, host, pid, queues, concurrency, state,
    (SELECT count(*) FROM {schema}task_queue WHERE status = 'RUNNING' AND worker_id = workers.id),
    expires_at > now(), started_at, heartbeat_at
FROM {schema}workers ORDER BY started_at, id

-- name: delete_worker
-- Waits for a running settle_and_claim of this worker; no other follows.
DELETE FROM {schema}workers WHERE id = %(worker_id)s

-- name: delete_dead_workers
-- Their tasks are orphaned from here on. A locked row is in use, and waiting for it would delay our own heartbeats:
-- skipped.
DELETE FROM {schema}workers
WHERE id IN (SELECT id FROM {schema}workers WHERE expires_at <= now() FOR UPDATE SKIP LOCKED)

-- name: delete_all_workers
-- Before a migration: all workers lose their leases, and new ones wait for its end. Locks in the same order as a claim.
LOCK TABLE {schema}workers IN ACCESS EXCLUSIVE MODE;
DELETE FROM {schema}workers

-- name: reconcile
-- The epoch rises, so a late settlement of the lost claim is refused.
WITH lost AS MATERIALIZED (
    SELECT id FROM {schema}task_queue
    WHERE status = 'RUNNING' AND worker_id = %(worker_id)s AND id <> ALL (%(held)s::bigint[])
    ORDER BY id
    FOR UPDATE
)
UPDATE {schema}task_queue AS task
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL)::integer, started_at = NULL, alone = false,
    updated_at = now(), lease_epoch = lease_epoch + 1
FROM lost
WHERE task.id = lost.id

-- name: rescue
-- Running tasks whose worker is unknown. Worker ids are read by jumping along the index, not by reading all running
-- tasks. A task that had not started returns unchanged. The epoch rises, so a worker that only seemed dead is refused.
-- A crash counts if the task ran alone; a canary gets one attempt, so its first crash is its last.
WITH RECURSIVE holders (worker_id) AS (
    (
        SELECT worker_id FROM {schema}task_queue
        WHERE status = 'RUNNING' AND worker_id IS NOT NULL
        ORDER BY worker_id LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT task.worker_id FROM {schema}task_queue AS task
        WHERE task.status = 'RUNNING' AND task.worker_id > holders.worker_id
        ORDER BY task.worker_id LIMIT 1
    )
    FROM holders WHERE holders.worker_id IS NOT NULL
),
orphans AS MATERIALIZED (
    SELECT task.*
    FROM (
        SELECT worker_id FROM holders WHERE worker_id IS NOT NULL AND worker_id NOT IN (SELECT id FROM {schema}workers)
    ) AS dead
    CROSS JOIN LATERAL (
        SELECT id, worker_id, started_at, crash_count + (suspect AND alone)::integer AS crashes,
            canary AND suspect AND alone AS spent
        FROM {schema}task_queue
        WHERE status = 'RUNNING' AND task_queue.worker_id = dead.worker_id
        LIMIT %(batch)s
        FOR UPDATE SKIP LOCKED
    ) AS task
    LIMIT %(batch)s
),
judged AS MATERIALIZED (
    SELECT id, worker_id, crashes, CASE
        WHEN started_at IS NULL THEN 'unspent'
        WHEN spent OR crashes >= %(crash_limit)s THEN 'dead'
        ELSE 'suspect'
    END AS outcome
    FROM orphans
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = CASE outcome WHEN 'dead' THEN 'FAILED' ELSE 'QUEUED' END,
        suspect = CASE outcome WHEN 'unspent' THEN task.suspect ELSE outcome = 'suspect' END,
        crash_count = CASE outcome WHEN 'unspent' THEN task.crash_count ELSE crashes END,
        last_error = CASE outcome WHEN 'unspent' THEN task.last_error ELSE %(error_message)s END,
        failed_at = CASE outcome WHEN 'dead' THEN now() ELSE task.failed_at END,
        lease_epoch = task.lease_epoch + 1, alone = false, updated_at = now()
    FROM judged
    WHERE task.id = judged.id
    RETURNING task.*, judged.outcome
),
history AS (
    INSERT INTO {schema}task_attempts
        (task_id, attempt, outcome, worker_id, started_at, finished_at,
         error_type, error_message, error_category, fingerprint, traceback, failure)
    SELECT id, attempt, 'lost', worker_id, started_at, now(),
        %(error_type)s, %(error_message)s, %(error_category)s, %(fingerprint)s, %(traceback)s, %(failure)s
    FROM changed WHERE outcome <> 'unspent'
    ORDER BY id
),
letters AS (
    INSERT INTO {schema}dead_letter_queue
        (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
         error_type, error_message, error_category, reason, fingerprint, traceback, failure,
         retry_count, crash_count, replays, replay_id, worker_id, created_at, moved_to_dlq_at, options)
    SELECT id, task_type, queue, priority, parameters, resource, unique_key,
        %(error_type)s, %(error_message)s, %(error_category)s, CASE WHEN canary THEN 'canary' ELSE 'crash' END,
        %(fingerprint)s, %(traceback)s, %(failure)s,
        retry_count, crash_count, replays, replay_id, worker_id, created_at, now(), options
    FROM changed WHERE outcome = 'dead'
    ORDER BY id
),
counted AS (
    INSERT INTO {schema}task_flow (event, task_type, category, fingerprint, n)
    SELECT CASE outcome WHEN 'dead' THEN 'failed' ELSE 'lost' END, task_type, %(error_category)s, %(fingerprint)s, count(*)
    FROM changed WHERE outcome <> 'unspent'
    GROUP BY outcome, task_type
),
grouped AS (
    INSERT INTO {schema}failure_groups
        (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen)
    SELECT %(fingerprint)s, task_type, %(error_type)s, %(error_category)s, %(error_message)s, now(), now()
    FROM changed WHERE outcome <> 'unspent'
    ORDER BY id LIMIT 1
    ON CONFLICT DO NOTHING
)
SELECT id, worker_id, outcome FROM changed ORDER BY id
