-- name: add_worker
-- The caller has checked the schema version in the same transaction.
INSERT INTO workers
    (id, name, host, pid, queues, concurrency, state, started_at, heartbeat_at, expires_at, schema_version)
VALUES (:id, :name, :host, :pid, :queues, :concurrency, :state, :started_at, :heartbeat_at, :expires_at, :schema_version)

-- name: heartbeat
-- If no row changes, the lease is lost: the worker was deleted meanwhile.
UPDATE workers SET heartbeat_at = :now, expires_at = :now + :lease, state = :state WHERE id = :id

-- name: workers
-- Counts running tasks by their partial index.
SELECT id, name, host, pid, queues, concurrency, state,
    (SELECT count(*) FROM task_queue WHERE status = 'RUNNING' AND worker_id = workers.id),
    expires_at > :now, started_at, heartbeat_at
FROM workers ORDER BY started_at, id

-- name: worker_leases
-- Read without a lock: mostly no worker has died.
SELECT id, expires_at FROM workers

-- name: delete_worker
-- When a worker stops, after its tasks were released in the same transaction.
DELETE FROM workers WHERE id = :worker_id

-- name: delete_dead_workers
-- Checks the leases again: one may have been renewed. Their tasks are orphaned from here on.
DELETE FROM workers WHERE expires_at <= :now OR id IN (SELECT value FROM json_each(:dead)) RETURNING id

-- name: reconcile
-- The epoch rises, so a late settlement of the lost claim is refused.
UPDATE task_queue
SET status = 'QUEUED', attempt = attempt - (started_at IS NOT NULL), started_at = NULL, alone = 0, updated_at = :now,
    lease_epoch = lease_epoch + 1
WHERE status = 'RUNNING' AND worker_id = :worker_id AND id NOT IN (SELECT value FROM json_each(:held))

-- name: has_orphans
-- Read before the file is locked: mostly there are none.
SELECT EXISTS (
    SELECT 1 FROM task_queue INDEXED BY task_queue_held
    WHERE status = 'RUNNING' AND (worker_id IS NULL OR worker_id NOT IN (SELECT id FROM workers))
)

-- name: orphans
-- Running tasks whose worker is unknown. A crash counts if the task ran alone.
SELECT id, lease_epoch, worker_id, attempt, started_at, suspect = 1 AND alone = 1, crash_count, canary, task_type
FROM task_queue INDEXED BY task_queue_held
WHERE status = 'RUNNING' AND (worker_id IS NULL OR worker_id NOT IN (SELECT id FROM workers))
LIMIT :batch

-- name: rescue_failed
-- A task that crashed its worker too often becomes a dead letter. The epoch rises, so a late settlement is refused.
UPDATE task_queue
SET status = 'FAILED', lease_epoch = lease_epoch + 1, suspect = 0, alone = 0, crash_count = :crash_count,
    last_error = :error, failed_at = :now, updated_at = :now
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'

-- name: rescue_suspect
-- The task may have caused the crash, so from now on it runs alone. The epoch rises, so a late settlement is refused.
UPDATE task_queue
SET status = 'QUEUED', lease_epoch = lease_epoch + 1, suspect = 1, alone = 0, crash_count = :crash_count,
    last_error = :error, updated_at = :now
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'

-- name: rescue_not_started
-- The epoch rises, so a worker that only seemed dead is refused.
UPDATE task_queue SET status = 'QUEUED', lease_epoch = lease_epoch + 1, alone = 0, updated_at = :now
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'
