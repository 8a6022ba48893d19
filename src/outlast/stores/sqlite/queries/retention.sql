-- name: expired_tasks
-- By id, oldest first: an index on the end time would make every success more expensive. The scan blocks no writer.
SELECT id FROM task_queue
WHERE id > :after AND status IN ('DONE', 'CANCELLED', 'DISCARDED') AND finished_at < :before
ORDER BY id LIMIT :batch

-- name: delete_tasks
-- Returns the statuses, because the counters of deleted tasks are kept by status.
DELETE FROM task_queue WHERE id IN (SELECT value FROM json_each(?)) RETURNING status

-- name: delete_attempts
-- In the transaction of delete_tasks: a task's history ends with the task.
DELETE FROM task_attempts WHERE task_id IN (SELECT value FROM json_each(?))

-- name: delete_payload_edits
-- The same for the edits of its arguments.
DELETE FROM payload_edits WHERE task_id IN (SELECT value FROM json_each(?))

-- name: prune_results
-- In batches, so that other writers do not wait long.
DELETE FROM task_results WHERE task_id IN (SELECT task_id FROM task_results WHERE expires_at <= :now LIMIT :batch)

-- name: prune_limits
-- Limits that nobody asked for, and whose places are over: the state of a new row is the same.
DELETE FROM resource_limits WHERE resource IN (
    SELECT resource FROM resource_limits
    WHERE max(asked_at, tat, spread, slot_spread, retry_tat, retry_spread, retry_again) < :now / 1000.0 - :seconds
    LIMIT :batch
)

-- name: prune_slots
-- Slots of resources that nobody asks for any more; the others are deleted when somebody asks.
DELETE FROM resource_slots WHERE task_id IN (
    SELECT task_id FROM resource_slots
    WHERE NOT EXISTS (
        SELECT 1 FROM task_queue
        WHERE task_queue.id = resource_slots.task_id AND task_queue.lease_epoch = resource_slots.epoch
            AND task_queue.status = 'RUNNING'
    )
    LIMIT :batch
)

-- name: expired_dead_letters
-- One batch; the caller discards it in the same transaction.
SELECT id FROM dead_letter_queue WHERE moved_to_dlq_at < ? LIMIT ?

-- name: expired_groups
-- Reads without a lock, from where the last batch ended; prune_groups checks the groups again.
SELECT fingerprint, last_seen FROM failure_groups INDEXED BY failure_groups_latest
WHERE (last_seen, fingerprint) > (:seen, :after) AND last_seen < :before
ORDER BY last_seen, fingerprint LIMIT :batch

-- name: prune_groups
-- Checks again: a group may have failed since, which only the deltas know so soon.
DELETE FROM failure_groups
WHERE fingerprint IN (SELECT value FROM json_each(:fingerprints)) AND last_seen < :before AND note = ''
    AND fingerprint NOT IN (SELECT fingerprint FROM task_flow WHERE span = 0)
    AND NOT EXISTS (
        SELECT 1 FROM dead_letter_queue INDEXED BY dead_letter_queue_fingerprint
        WHERE dead_letter_queue.fingerprint = failure_groups.fingerprint
    )
RETURNING fingerprint

-- name: delete_group_alerts
-- So that a group that returns is announced again.
DELETE FROM alerts
WHERE delivered_at IS NOT NULL AND key IN (
    SELECT 'group:' || value FROM json_each(:gone) UNION ALL SELECT 'growth:' || value FROM json_each(:gone)
)

-- name: prune_alerts
-- The first and the last alert of a key stay until it has recovered: they say since when and what. Then the last one goes
-- with or after all earlier ones, otherwise one of those would become the last.
DELETE FROM alerts
WHERE delivered_at < :now - :age
    AND (
        EXISTS (
            SELECT 1 FROM alerts AS newer WHERE newer.key = alerts.key AND newer.id > alerts.id
                AND (alerts.kind <> 'first' OR newer.kind = 'recovered')
        )
        OR kind = 'recovered' AND NOT EXISTS (
            SELECT 1 FROM alerts AS older INDEXED BY alerts_key
            WHERE older.key = alerts.key AND older.id < alerts.id AND (older.delivered_at < :now - :age) IS NOT TRUE
        )
    )

-- name: has_stale_breakers
-- Read before the file is locked: mostly there is nothing to delete.
SELECT EXISTS (
    SELECT 1 FROM breakers
    WHERE CASE WHEN is_worker THEN process NOT IN (SELECT id FROM workers) ELSE updated_at < :before END
)

-- name: prune_breakers
-- Those of unknown workers, and of other processes that have not reported for a long time.
DELETE FROM breakers
WHERE CASE WHEN is_worker THEN process NOT IN (SELECT id FROM workers) ELSE updated_at < :before END

-- name: prune_polls
-- Reads back only to the last poll that is kept, however long the history is.
DELETE FROM source_polls INDEXED BY source_polls_source
WHERE source_id = :source_id
    AND id <= (
        SELECT id FROM source_polls INDEXED BY source_polls_source
        WHERE source_id = :source_id ORDER BY id DESC LIMIT 1 OFFSET :keep
    )

-- name: prune_cycles
-- Reads back only to the last cycle that is kept, however long the history is.
DELETE FROM cycles INDEXED BY cycles_profile
WHERE profile = :profile
    AND id <= (
        SELECT id FROM cycles INDEXED BY cycles_profile
        WHERE profile = :profile ORDER BY id DESC LIMIT 1 OFFSET :keep
    )

-- name: expired_runs
-- The runs are deleted one by one, each with its targets first.
SELECT id FROM job_runs WHERE ended_at < :before ORDER BY ended_at

-- name: prune_targets
-- A run that was reopened meanwhile keeps its targets.
DELETE FROM job_targets
WHERE run_id = (SELECT id FROM job_runs WHERE id = :id AND ended_at < :before)
    AND source_id IN (SELECT source_id FROM job_targets WHERE run_id = :id ORDER BY source_id LIMIT :batch)

-- name: prune_run
-- Only without targets: a run that was reopened meanwhile, or has more targets, stays.
DELETE FROM job_runs
WHERE id = :id AND ended_at < :before AND NOT EXISTS (SELECT 1 FROM job_targets WHERE run_id = :id)
