-- name: add_plain_task
-- The common case, without key or resource: nothing to look up.
INSERT INTO task_queue (task_type, queue, priority, parameters, next_run_after, expires_at, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_similar_tasks
-- Tasks that differ only in their arguments, in one step: a step per row would bind every column and release the GIL
-- each time.
INSERT INTO task_queue (task_type, queue, priority, parameters, next_run_after, expires_at, created_at, updated_at)
SELECT :task_type, :queue, :priority, value, :due, :expires_at, :now, :now FROM json_each(:parameters)

-- name: add_similar_tasks_of_resources
-- The same for tasks with resources: pairs of arguments and resource. No key, so nothing can be taken. Mostly
-- nothing cools down, which is asked once.
INSERT INTO task_queue
    (task_type, queue, priority, parameters, resource, options, next_run_after, expires_at, created_at, updated_at)
SELECT :task_type, :queue, :priority, value ->> 0, value ->> 1, :options,
    CASE WHEN :due > :now OR NOT EXISTS (SELECT 1 FROM cooldowns WHERE until > :now) THEN :due
        ELSE max(:due, coalesce((SELECT until FROM cooldowns WHERE resource = value ->> 1), 0)) END,
    :expires_at, :now, :now
FROM json_each(:pairs)

-- name: add_task
-- A task that would be due now waits for the end of its resource's cooldown. A taken unique key adds nothing and
-- returns no row.
INSERT INTO task_queue
    (task_type, queue, priority, parameters, resource, unique_key, options, next_run_after, expires_at, created_at,
     updated_at)
VALUES (
    :task_type, :queue, :priority, :parameters, :resource, :unique_key, :options,
    CASE WHEN :due > :now THEN :due ELSE max(:due, coalesce((SELECT until FROM cooldowns WHERE resource = :resource), 0)) END,
    :expires_at, :now, :now
)
ON CONFLICT (task_type, unique_key) WHERE unique_key IS NOT NULL AND status IN ('QUEUED', 'RUNNING', 'PARKED')
DO NOTHING
RETURNING id

-- name: live_by_key
-- Finds the task that holds a unique key, after add_task returned no row.
SELECT id FROM task_queue
WHERE task_type = :task_type AND unique_key = :unique_key AND status IN ('QUEUED', 'RUNNING', 'PARKED')

-- name: set_periodic
-- A periodic task that is already registered keeps its next run. Milliseconds are rounded up.
INSERT INTO periodic (name, next_run_at)
SELECT key, :now + CAST(value * 1000 + 0.999 AS INTEGER) FROM json_each(:waits) WHERE true
ON CONFLICT DO NOTHING

-- name: due_periodic
-- Only tasks that this process knows; the others belong to other programs.
SELECT name, next_run_at FROM periodic
WHERE next_run_at <= :now AND NOT paused AND name IN (SELECT value FROM json_each(:names)) ORDER BY name

-- name: list_periodic
-- A pruned task leaves no status.
SELECT name, next_run_at, last_run_at, paused, last_task, status
FROM periodic LEFT JOIN task_queue ON task_queue.id = last_task
ORDER BY name

-- name: pause_periodic
-- Without seconds, the next run stays.
UPDATE periodic SET paused = :paused, next_run_at = coalesce(:now + :wait, next_run_at) WHERE name = :name

-- name: save_periodic_task
-- In the transaction of run_periodic.
UPDATE periodic SET last_task = :task WHERE name = :name

-- name: run_periodic
-- The due time is the fence: a second caller changes nothing. A run that waits for the one before it stays due.
UPDATE periodic SET next_run_at = :next, last_run_at = :now
WHERE name = :name AND next_run_at = :due AND NOT (:wait AND EXISTS (
    SELECT 1 FROM task_queue
    WHERE task_type = :task_type AND unique_key = :unique_key AND status IN ('QUEUED', 'RUNNING', 'PARKED')
))
