-- part: if_held
-- The epoch is the fence.
WHERE id = :id AND lease_epoch = :epoch AND status = 'RUNNING'

-- part: history_columns
-- What the history and the counters need.
RETURNING task_type, attempt, worker_id, started_at

-- part: undo_start
-- The start of the attempt is not counted.
attempt = attempt - (started_at IS NOT NULL), started_at = NULL

-- name: settle_done
-- A batch of successes of one epoch, which is the fence.
UPDATE task_queue
SET status = 'DONE', finished_at = :now, updated_at = :now, suspect = 0, alone = 0
WHERE id IN (SELECT value FROM json_each(:ids)) AND lease_epoch = :epoch AND status = 'RUNNING'

-- name: save_result
-- In the transaction that settles the task. A task that runs again overwrites its result.
INSERT INTO task_results (task_id, result, expires_at) VALUES (:id, :result, :now + :keep)
ON CONFLICT (task_id) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at

-- name: settle_retry
-- The epoch is the fence. Returns what the history and the counters need.
UPDATE task_queue
SET status = 'QUEUED', retry_count = retry_count + 1, last_error = :error, next_run_after = :now + :delay,
    updated_at = :now, suspect = :suspect, alone = 0, deferred_at = NULL
{if_held}
{history_columns}

-- name: settle_fail
-- The epoch is the fence. Without a note no attempt is counted.
UPDATE task_queue
SET status = 'FAILED', retry_count = retry_count + :spent, last_error = :error, failed_at = :now, updated_at = :now,
    suspect = 0, alone = 0
{if_held}
{history_columns}

-- name: settle_defer
-- No attempt is spent. While the resource cools down, the task waits for the end of the cooldown.
UPDATE task_queue
SET status = 'QUEUED', {undo_start}, deferrals = deferrals + 1, deferred_at = coalesce(deferred_at, :now),
    last_error = coalesce(:error, last_error),
    next_run_after = max(:now + :delay, coalesce((SELECT until FROM cooldowns WHERE resource = task_queue.resource), 0)),
    updated_at = :now, suspect = :suspect, alone = 0
{if_held}
RETURNING task_type

-- name: settle_crash
-- The process of a suspect died. Without a reason it runs alone again after the delay; with one it becomes a dead
-- letter.
UPDATE task_queue
SET status = CASE WHEN :reason IS NULL THEN 'QUEUED' ELSE 'FAILED' END, suspect = (:reason IS NULL), alone = 0,
    crash_count = crash_count + 1, last_error = :error, updated_at = :now,
    next_run_after = CASE WHEN :reason IS NULL THEN :now + :delay ELSE next_run_after END,
    failed_at = CASE WHEN :reason IS NULL THEN failed_at ELSE :now END
{if_held}
{history_columns}

-- name: settle_park
-- No worker knows the task's name; it waits for one that does.
UPDATE task_queue
SET status = 'PARKED', {undo_start}, alone = 0, updated_at = :now
{if_held}

-- name: settle_release
-- Back to the state before the claim: the start is not counted. With a delay it is not due earlier.
UPDATE task_queue
SET status = 'QUEUED', {undo_start}, alone = 0, updated_at = :now,
    next_run_after = CASE WHEN :delay > 0 THEN :now + :delay ELSE next_run_after END
{if_held}

-- name: add_attempt
-- In the transaction that settles the task: its history has every failed attempt.
INSERT INTO task_attempts
    (task_id, attempt, outcome, worker_id, started_at, finished_at,
     error_type, error_message, error_category, fingerprint, delay, traceback, failure)
VALUES
    (:task_id, :attempt, :outcome, :worker_id, :started_at, :now,
     :error_type, :error_message, :error_category, :fingerprint, :delay, :traceback, :failure)

-- name: add_dead_letter
-- Copied from the task, in the transaction that fails it.
INSERT INTO dead_letter_queue
    (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
     error_type, error_message, error_category, reason, fingerprint, traceback, failure,
     retry_count, crash_count, replays, worker_id, created_at, moved_to_dlq_at, replay_id, options)
SELECT
    id, task_type, queue, priority, parameters, resource, unique_key,
    :error_type, :error_message, :error_category, :reason, :fingerprint, :traceback, :failure,
    retry_count, crash_count, replays, worker_id, created_at, :now, replay_id, options
FROM task_queue
WHERE id = :id
