-- part: replay_columns
id, which, canary, rate, state, stage, total, newest, cursor, replayed, conflicts, conflict_ids, stopped_by, who, reason,
    epoch, created_at, updated_at, ended_at

-- name: add_replay
-- `bound` keeps the first value of `newest`, which resuming may raise.
INSERT INTO {schema}replays (which, canary, rate, who, reason, total, newest, bound, cursor)
VALUES (%(filters)s, %(canary)s, %(rate)s, %(who)s, %(reason)s, %(total)s, %(newest)s, %(newest)s, %(cursor)s)
RETURNING {replay_columns}

-- name: get_replay
-- Used by the page of one replay.
SELECT {replay_columns}
FROM {schema}replays WHERE id = %(id)s

-- name: list_replays
-- One statement for both lists; there are few replays.
SELECT {replay_columns}
FROM {schema}replays WHERE NOT %(running)s::boolean OR state = 'running'
ORDER BY id DESC LIMIT %(limit)s

-- name: claim_replay
-- A free replay or one we hold already; the one claimed longest ago, so that an owner of several takes turns.
WITH chosen AS MATERIALIZED (
    SELECT id AS chosen_id FROM {schema}replays
    WHERE state = 'running' AND (lease_owner = %(owner)s OR leased_until IS NULL OR leased_until <= now())
    ORDER BY leased_until NULLS FIRST, id LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE {schema}replays
SET epoch = epoch + (lease_owner IS DISTINCT FROM %(owner)s)::integer, lease_owner = %(owner)s,
    leased_until = now() + %(lease)s
FROM chosen WHERE id = chosen_id
RETURNING {replay_columns}

-- name: lock_replay
-- Locked until the step is written: nobody else takes a step or ends the replay meanwhile.
SELECT {replay_columns}, bound
FROM {schema}replays WHERE id = %(id)s AND epoch = %(epoch)s AND state = 'running'
FOR UPDATE

-- name: replay_dead_letter
-- The same task again, with its history and id; its attempts start over.
WITH letter AS MATERIALIZED (
    SELECT original_task_id, task_type, error_category, fingerprint FROM {schema}dead_letter_queue
    WHERE id = %(id)s
    FOR UPDATE
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = 'QUEUED', retry_count = 0, crash_count = 0, suspect = false, alone = false, replays = replays + 1,
        next_run_after = now(), deferred_at = NULL, expires_at = NULL, failed_at = NULL, updated_at = now(),
        replay_id = NULL, canary = false
    FROM letter
    WHERE task.id = letter.original_task_id AND task.status = 'FAILED'
    RETURNING task.id
),
removed AS (
    DELETE FROM {schema}dead_letter_queue AS letter USING changed WHERE letter.original_task_id = changed.id
),
counted AS (
    INSERT INTO {schema}task_flow (event, task_type, category, fingerprint, n)
    SELECT 'replayed', task_type, error_category, fingerprint, 1
    FROM letter JOIN changed ON changed.id = letter.original_task_id
)
SELECT id, pg_notify('outlast_' || '{schema}task_queue'::regclass::oid, '') FROM changed

-- name: replay_dead_letters
-- Several at once. A dead letter stays if a live task has its key, and so does the second of two with the same key.
-- Tasks are updated in order of their keys, as in add_tasks, which prevents deadlocks. `BETWEEN 1 AND …` is always
-- true: it makes the planner look ids up, whatever its statistics say.
WITH letters AS MATERIALIZED (
    SELECT id, original_task_id, task_type, unique_key, error_category, fingerprint FROM {schema}dead_letter_queue
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR UPDATE
),
judged AS MATERIALIZED (
    SELECT letters.*, unique_key IS NOT NULL AND (
        row_number() OVER (PARTITION BY task_type, unique_key ORDER BY id) > 1
        OR EXISTS (
            SELECT FROM {schema}task_queue AS live
            WHERE live.task_type = letters.task_type AND live.unique_key = letters.unique_key
                AND live.unique_key IS NOT NULL AND live.status IN ('QUEUED', 'RUNNING', 'PARKED')
        )
    ) AS taken
    FROM letters
),
changed AS (
    UPDATE {schema}task_queue AS task
    SET status = 'QUEUED', retry_count = 0, crash_count = 0, suspect = false, alone = false, replays = replays + 1,
        next_run_after = now(), deferred_at = NULL, expires_at = NULL, failed_at = NULL, updated_at = now(),
        replay_id = %(replay_id)s, canary = %(canary)s
    FROM (SELECT * FROM judged WHERE NOT taken ORDER BY task_type, unique_key, id) AS letter
    WHERE letter.original_task_id BETWEEN 1 AND 9223372036854775807
        AND task.id = letter.original_task_id AND task.status || '' = 'FAILED'
    RETURNING letter.id, letter.task_type, letter.error_category, letter.fingerprint
),
removed AS (
    DELETE FROM {schema}dead_letter_queue AS letter USING changed
    WHERE changed.id BETWEEN 1 AND 9223372036854775807 AND letter.id = changed.id
),
counted AS (
    INSERT INTO {schema}task_flow (event, task_type, category, fingerprint, n)
    SELECT 'replayed', task_type, error_category, fingerprint, count(*) FROM changed GROUP BY 2, 3, 4
)
SELECT (SELECT count(*) FROM changed), ARRAY(SELECT id FROM judged WHERE taken ORDER BY id),
    (SELECT pg_notify('outlast_' || '{schema}task_queue'::regclass::oid, '') FROM changed LIMIT 1)

-- name: failed_in_replay
-- Dead letters that failed in this replay before it was resumed, whether they match its filter now or not.
SELECT id FROM {schema}dead_letter_queue
WHERE replay_id = -%(id)s::bigint AND id > %(cursor)s AND id <= %(newest)s
ORDER BY replay_id, id LIMIT %(limit)s

-- name: save_replay_progress
-- In the transaction of the step, so a crash neither repeats nor skips a dead letter.
UPDATE {schema}replays
SET cursor = %(cursor)s, stage = %(stage)s, replayed = replayed + %(replayed)s, conflicts = conflicts + %(conflicts)s,
    conflict_ids = (conflict_ids || %(conflict_ids)s::bigint[])[1:%(most)s], updated_at = now()
WHERE id = %(id)s

-- name: canaries
-- A dead letter of any task of the replay, or a canary that was cancelled or discarded and so left no dead letter.
SELECT live, done, bad.task_id, bad.error,
    (SELECT count(*) FROM (SELECT 1 FROM {schema}dead_letter_queue WHERE replay_id = %(id)s LIMIT %(most)s) AS failures)
FROM (
    SELECT count(*) FILTER (WHERE status IN ('QUEUED', 'RUNNING', 'PARKED')) AS live,
        count(*) FILTER (WHERE status = 'DONE') AS done
    FROM {schema}task_queue WHERE canary AND replay_id = %(id)s
) AS tasks
LEFT JOIN (
    (
        SELECT original_task_id AS task_id, error_message AS error FROM {schema}dead_letter_queue
        WHERE replay_id = %(id)s ORDER BY replay_id, id LIMIT 1
    )
    UNION ALL
    (
        SELECT id, 'it was ' || lower(status) FROM {schema}task_queue
        WHERE canary AND replay_id = %(id)s AND status IN ('CANCELLED', 'DISCARDED') ORDER BY replay_id, id LIMIT 1
    )
    LIMIT 1
) AS bad ON true

-- name: end_replay
-- Only a running replay ends. With an epoch only its holder may end it; without one anybody may cancel it.
UPDATE {schema}replays
SET state = %(state)s, stopped_by = %(why)s, ended_at = now(), updated_at = now(), lease_owner = NULL, leased_until = NULL
WHERE id = %(id)s AND state = 'running' AND (%(epoch)s::integer IS NULL OR epoch = %(epoch)s::integer)

-- name: resume_replay
-- Failures so far no longer stop the replay; they are replayed last. Their replay_id becomes negative, so that a
-- failure committed later still counts as new. The epoch rises: the previous holder is refused.
WITH mine AS MATERIALIZED (
    SELECT id FROM {schema}replays WHERE id = %(id)s AND state IN ('stopped', 'cancelled') FOR UPDATE
),
letters AS (
    UPDATE {schema}dead_letter_queue AS letter SET replay_id = -mine.id
    FROM mine WHERE letter.replay_id = mine.id
    RETURNING letter.id
),
tasks AS (
    UPDATE {schema}task_queue AS task SET replay_id = NULL, canary = false
    FROM mine
    WHERE task.canary AND task.replay_id = mine.id AND task.status NOT IN ('QUEUED', 'RUNNING', 'PARKED')
),
again AS (
    SELECT count(*) AS size, min(id) AS first, max(id) AS last FROM letters
),
resumed AS (
    UPDATE {schema}replays AS known
    SET state = 'running', stage = 0, stopped_by = '', ended_at = NULL, updated_at = now(), lease_owner = NULL,
        leased_until = NULL, epoch = epoch + 1, total = total + again.size, newest = greatest(newest, again.last),
        cursor = least(cursor, again.first - 1)
    FROM mine, again
    WHERE known.id = mine.id
    RETURNING known.*
)
SELECT {replay_columns}
FROM resumed
