-- part: step
-- Milliseconds.
CAST(:step * 1000 AS INTEGER)

-- part: begin
-- The start of the first step of the window. Steps start at whole multiples, so that none is cut.
((:now - CAST(:window * 1000 AS INTEGER)) / {step} * {step})

-- part: delta_sums
sum(CASE WHEN event NOT IN ('replayed', 'discarded') THEN n ELSE 0 END) AS failures,
    sum(CASE event WHEN 'failed' THEN n WHEN 'replayed' THEN -n WHEN 'discarded' THEN -n ELSE 0 END) AS dead,
    max(CASE WHEN event NOT IN ('replayed', 'discarded') THEN seen ELSE 0 END) AS last_seen

-- part: group_seen
max(failure_groups.last_seen, coalesce(fresh.last_seen, 0))

-- part: group_dead
failure_groups.dead + coalesce(fresh.dead, 0)

-- part: group_columns
failure_groups.fingerprint, task_type, error_type, error_category, error_message, first_seen, {group_seen},
    failure_groups.failures + coalesce(fresh.failures, 0), {group_dead}, note, acknowledged_at, acknowledged_by,
    snoozed_until, snoozed_by

-- part: recent_deltas
-- Counters of each group that are not rolled up yet.
SELECT fingerprint AS cause, {delta_sums}
FROM task_flow WHERE span = 0 AND fingerprint <> '' GROUP BY fingerprint

-- part: join_recent_deltas
LEFT JOIN ({recent_deltas}) AS fresh ON fresh.cause = failure_groups.fingerprint

-- name: failure_group
-- Adds the deltas of this group only, so that the other groups are not read.
SELECT {group_columns}
FROM failure_groups LEFT JOIN (
    SELECT {delta_sums}
    FROM task_flow WHERE span = 0 AND fingerprint = :fingerprint
) AS fresh
WHERE fingerprint = :fingerprint

-- name: list_fingerprints
-- A range of the primary key; no character follows the last one of the range.
SELECT fingerprint FROM failure_groups
WHERE fingerprint >= :prefix AND fingerprint < :prefix || char(1114111) ORDER BY fingerprint LIMIT :limit

-- part: latest_first
(failure_groups.last_seen, failure_groups.fingerprint) < (:value, :fingerprint)

-- part: largest_first
(failure_groups.failures, failure_groups.fingerprint) < (:value, :fingerprint)

-- name: list_failure_groups_by_last_seen
-- In the order of one index; the reader stops when it has enough. Recent deltas are added to the counts.
SELECT failure_groups.last_seen, {group_columns}
FROM failure_groups INDEXED BY failure_groups_latest
{join_recent_deltas}
WHERE {latest_first}
ORDER BY failure_groups.last_seen DESC, failure_groups.fingerprint DESC

-- name: list_failure_groups_by_size
-- The same in the order of size.
SELECT failure_groups.failures, {group_columns}
FROM failure_groups INDEXED BY failure_groups_largest
{join_recent_deltas}
WHERE {largest_first}
ORDER BY failure_groups.failures DESC, failure_groups.fingerprint DESC

-- name: list_failure_groups_of_category_by_last_seen
-- The same along the index of categories.
SELECT failure_groups.last_seen, {group_columns}
FROM failure_groups INDEXED BY failure_groups_category_latest
{join_recent_deltas}
WHERE {latest_first} AND error_category = :category
ORDER BY failure_groups.last_seen DESC, failure_groups.fingerprint DESC

-- name: list_failure_groups_of_category_by_size
-- The same along the index of categories, in the order of size.
SELECT failure_groups.failures, {group_columns}
FROM failure_groups INDEXED BY failure_groups_category_largest
{join_recent_deltas}
WHERE {largest_first} AND error_category = :category
ORDER BY failure_groups.failures DESC, failure_groups.fingerprint DESC

-- name: list_failure_groups_of_task_type_by_last_seen
-- The same along the index of task types.
SELECT failure_groups.last_seen, {group_columns}
FROM failure_groups INDEXED BY failure_groups_task_latest
{join_recent_deltas}
WHERE {latest_first} AND task_type = :task_type
ORDER BY failure_groups.last_seen DESC, failure_groups.fingerprint DESC

-- name: list_failure_groups_of_task_type_by_size
-- The same along the index of task types, in the order of size.
SELECT failure_groups.failures, {group_columns}
FROM failure_groups INDEXED BY failure_groups_task_largest
{join_recent_deltas}
WHERE {largest_first} AND task_type = :task_type
ORDER BY failure_groups.failures DESC, failure_groups.fingerprint DESC

-- name: failure_flow
-- The rolled-up flow, plus the deltas that are not in it yet. CROSS JOIN makes the given fingerprints lead.
SELECT flow.fingerprint, at / {step} * {step}, event, error_category, sum(n)
FROM (
    SELECT fingerprint, at, event, n FROM json_each(:fingerprints) AS wanted CROSS JOIN failure_flow
    WHERE failure_flow.fingerprint = wanted.value AND span IN (10, 600) AND at >= {begin}
    UNION ALL
    SELECT fingerprint, at, event, n FROM task_flow
    WHERE span = 0 AND at >= {begin} AND event NOT IN ('replayed', 'discarded')
        AND fingerprint IN (SELECT value FROM json_each(:fingerprints))
) AS flow
CROSS JOIN failure_groups ON failure_groups.fingerprint = flow.fingerprint
GROUP BY flow.fingerprint, 2, event, error_category
ORDER BY 2

-- name: failure_samples
-- The index is named, so that only the newest attempts of the group are read.
SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, traceback, failure
FROM task_attempts INDEXED BY task_attempts_groups WHERE fingerprint = :fingerprint ORDER BY id DESC LIMIT :limit

-- name: failure_tasks
-- The tasks of the newest attempts of each group; reading all of them would cost as much as the group is large.
SELECT wanted.value, task_type, count(*)
FROM json_each(:fingerprints) AS wanted
CROSS JOIN task_attempts ON task_attempts.id IN (
    SELECT id FROM task_attempts AS newest INDEXED BY task_attempts_groups
    WHERE newest.fingerprint = wanted.value ORDER BY id DESC LIMIT :limit
)
CROSS JOIN task_queue ON task_queue.id = task_attempts.task_id
GROUP BY 1, 2 ORDER BY 3 DESC, 2

-- name: add_failure_group
-- The first failure of a cause creates its group; the counts come with the deltas.
INSERT INTO failure_groups (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: mark_group
-- Values that are not given stay.
UPDATE failure_groups
SET note = coalesce(:note, note),
    acknowledged_at = CASE :acknowledged WHEN 1 THEN :now WHEN 0 THEN NULL ELSE acknowledged_at END,
    acknowledged_by = CASE :acknowledged WHEN 1 THEN :who WHEN 0 THEN '' ELSE acknowledged_by END,
    snoozed_by = CASE WHEN :snooze IS NULL THEN snoozed_by WHEN :snooze > 0 THEN :who ELSE '' END,
    snoozed_until = CASE WHEN :snooze IS NULL THEN snoozed_until WHEN :snooze > 0 THEN :now + :snooze END
WHERE fingerprint = :fingerprint

-- name: has_announced_groups
-- Groups that got an alert since the last look.
SELECT EXISTS (
    SELECT 1 FROM failure_groups INDEXED BY failure_groups_untold
    WHERE told = 0 AND EXISTS (SELECT 1 FROM alerts INDEXED BY alerts_key WHERE key = 'group:' || fingerprint)
)

-- name: mark_announced_groups
-- Only run if has_announced_groups says so: otherwise the file is not locked.
UPDATE failure_groups INDEXED BY failure_groups_untold SET told = 1
WHERE told = 0 AND EXISTS (SELECT 1 FROM alerts INDEXED BY alerts_key WHERE key = 'group:' || fingerprint)

-- name: unannounced_groups
-- Open groups with recent failures or dead letters, oldest first.
SELECT {group_columns}
FROM failure_groups INDEXED BY failure_groups_untold
{join_recent_deltas}
WHERE told = 0 AND coalesce(snoozed_until, 0) <= :now AND (acknowledged_at IS NULL OR {group_seen} > acknowledged_at)
    AND (:since IS NULL OR {group_seen} >= :since OR {group_dead} > 0)
    AND NOT EXISTS (SELECT 1 FROM alerts INDEXED BY alerts_key WHERE key = 'group:' || failure_groups.fingerprint)
ORDER BY first_seen LIMIT :limit

-- name: oldest_dead_letter
-- Jumps from one group with dead letters to the next, however many each has; the first of each is its oldest.
WITH RECURSIVE causes (cause) AS (
    VALUES ('')
    UNION ALL
    SELECT (
        SELECT min(fingerprint) FROM dead_letter_queue INDEXED BY dead_letter_queue_fingerprint WHERE fingerprint > cause
    )
    FROM causes WHERE cause IS NOT NULL
)
SELECT max(0.0, (:now - min((
    SELECT moved_to_dlq_at FROM dead_letter_queue INDEXED BY dead_letter_queue_fingerprint
    WHERE dead_letter_queue.fingerprint = causes.cause ORDER BY id LIMIT 1
))) / 1000.0)
FROM causes CROSS JOIN failure_groups ON failure_groups.fingerprint = causes.cause
{join_recent_deltas}
WHERE coalesce(snoozed_until, 0) <= :now
    AND (acknowledged_at IS NULL OR {group_seen} > acknowledged_at)
