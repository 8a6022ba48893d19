-- part: replay_columns
id, which, canary, rate, state, stage, total, newest, cursor, replayed, conflicts, conflict_ids, stopped_by, who,
    reason, epoch, created_at, updated_at, ended_at

-- name: add_replay
-- `bound` keeps the first value of `newest`, which resuming may raise.
INSERT INTO replays (which, canary, rate, total, newest, bound, cursor, who, reason, created_at, updated_at)
VALUES (:filters, :canary, :rate, :total, :newest, :newest, :cursor, :who, :reason, :now, :now)
RETURNING {replay_columns}

-- name: get_replay
-- Used by the page of one replay, and before each step.
SELECT {replay_columns} FROM replays WHERE id = :id

-- name: list_replays
-- One statement for both lists; there are few replays.
SELECT {replay_columns} FROM replays WHERE NOT :running OR state = 'running' ORDER BY id DESC LIMIT :limit

-- part: claimable
SELECT id FROM replays INDEXED BY replays_running
WHERE state = 'running' AND (lease_owner IS NULL OR lease_owner = :owner OR leased_until <= :now)
ORDER BY coalesce(leased_until, 0), id LIMIT 1

-- name: claimable_replay
-- The one claimed longest ago, of those that nobody else holds. Read before the file is locked: mostly there is none.
{claimable}

-- name: claim_replay
-- The epoch distinguishes holders, not claims.
UPDATE replays
SET epoch = epoch + (lease_owner IS NOT :owner), lease_owner = :owner, leased_until = :now + :lease
WHERE id = ({claimable})
RETURNING {replay_columns}

-- name: replay_bound
-- Not in replay_columns, because only the step of a replay uses it.
SELECT bound FROM replays WHERE id = ?

-- name: replay_dead_letter
-- The same task again, with its history and id; its attempts start over.
UPDATE task_queue
SET status = 'QUEUED', retry_count = 0, crash_count = 0, suspect = 0, alone = 0, replays = replays + 1,
    next_run_after = :now, deferred_at = NULL, expires_at = NULL, failed_at = NULL, updated_at = :now,
    replay_id = :replay_id, canary = :canary
WHERE id = (SELECT original_task_id FROM dead_letter_queue WHERE id = :id) AND status = 'FAILED'

-- name: failed_in_replay
-- Dead letters that failed in this replay before it was resumed.
SELECT id, 1 FROM dead_letter_queue INDEXED BY dead_letter_queue_replays
WHERE replay_id = :replay_id AND id > :after AND id <= :newest ORDER BY id

-- name: save_replay_progress
-- In the transaction of the step, so a crash neither repeats nor skips a dead letter.
UPDATE replays
SET stage = :stage, cursor = :cursor, replayed = replayed + :replayed, conflicts = conflicts + :conflicts,
    conflict_ids = :conflict_ids, updated_at = :now
WHERE id = :id

-- name: canaries
-- A dead letter of any task of the replay counts; cancelled or discarded tasks count only if they are canaries.
WITH mine (id, status) AS MATERIALIZED (
    SELECT id, status FROM task_queue INDEXED BY task_queue_canaries WHERE canary = 1 AND replay_id = :id
)
SELECT
    (SELECT count(*) FROM mine WHERE status IN ('QUEUED', 'RUNNING', 'PARKED')),
    (SELECT count(*) FROM mine WHERE status = 'DONE'),
    (
        SELECT json_array(original_task_id, error_message)
        FROM dead_letter_queue INDEXED BY dead_letter_queue_replays
        WHERE replay_id = :id AND id > (SELECT forgiven FROM replays WHERE replays.id = :id) ORDER BY id LIMIT 1
    ),
    (
        SELECT json_array(id, 'it was ' || lower(status)) FROM mine
        WHERE status IN ('CANCELLED', 'DISCARDED') ORDER BY id LIMIT 1
    ),
    (
        SELECT count(*) FROM (
            SELECT 1 FROM dead_letter_queue INDEXED BY dead_letter_queue_replays
            WHERE replay_id = :id AND id > (SELECT forgiven FROM replays WHERE replays.id = :id) LIMIT :most
        )
    )

-- name: clear_finished_canaries
-- The first stage starts over.
UPDATE task_queue INDEXED BY task_queue_canaries SET canary = 0
WHERE canary = 1 AND replay_id = :id AND status NOT IN ('QUEUED', 'RUNNING', 'PARKED')

-- name: end_replay
-- Only a running replay ends. With an epoch only its holder may end it; without one anybody may cancel it.
UPDATE replays
SET state = :state, stopped_by = :why, ended_at = :now, updated_at = :now, lease_owner = NULL, leased_until = NULL
WHERE id = :id AND state = 'running' AND (:epoch IS NULL OR epoch = :epoch)

-- name: resume_replay
-- The epoch rises: the previous holder is refused. Failures so far no longer stop the replay; they are replayed last.
UPDATE replays
SET state = 'running', stage = 0, stopped_by = '', ended_at = NULL, epoch = epoch + 1, updated_at = :now,
    forgiven = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'dead_letter_queue'), 0),
    total = total + (
        SELECT count(*) FROM dead_letter_queue INDEXED BY dead_letter_queue_replays
        WHERE replay_id = replays.id AND dead_letter_queue.id > newest
    ),
    newest = max(newest, coalesce((
        SELECT max(dead_letter_queue.id) FROM dead_letter_queue INDEXED BY dead_letter_queue_replays
        WHERE replay_id = replays.id
    ), 0))
WHERE id = :id AND state IN ('stopped', 'cancelled')
RETURNING {replay_columns}
