-- part: dead_letter_columns
id, original_task_id, task_type, queue, priority, parameters, resource, unique_key, error_type, error_message,
    error_category, reason, fingerprint, traceback, failure, retry_count, crash_count, replays, worker_id, created_at,
    moved_to_dlq_at, options

-- part: dead_letter_matches
(:task_type IS NULL OR task_type = :task_type)
    AND (:queue IS NULL OR queue = :queue)
    AND (:category IS NULL OR error_category = :category)
    AND (:reason IS NULL OR reason = :reason)
    AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
    AND (:since IS NULL OR moved_to_dlq_at >= :since)
    AND (:until IS NULL OR moved_to_dlq_at < :until)
    AND CASE WHEN :text IS NULL THEN 1 ELSE holds(:text, error_type, error_message) END

-- part: dead_letter_filter
WHERE (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND {dead_letter_matches}
    AND (:before IS NULL OR id < :before)

-- name: dead_letters
-- One statement for all combinations of filters. The paged lists use the scans below instead.
SELECT {dead_letter_columns} FROM dead_letter_queue
{dead_letter_filter}
ORDER BY id DESC LIMIT coalesce(:limit, -1)

-- name: count_dead_letters
-- The exact number; reads every matching row.
SELECT count(*) FROM dead_letter_queue
{dead_letter_filter}

-- name: dead_letter
-- Used by the page of one dead letter.
SELECT {dead_letter_columns} FROM dead_letter_queue WHERE id = :id

-- name: group_dead_letters
-- Beside max(), SQLite takes the other columns from the newest row of each group.
SELECT fingerprint, count(*), task_type, error_type, error_category, error_message, min(moved_to_dlq_at),
    max(moved_to_dlq_at)
FROM dead_letter_queue
{dead_letter_filter}
GROUP BY fingerprint
ORDER BY count(*) DESC, max(moved_to_dlq_at) DESC
LIMIT coalesce(:limit, -1)

-- name: count_dead_letters_by_type
-- From the counters, without reading dead letters.
SELECT task_type, category, sum(CASE event WHEN 'failed' THEN n ELSE -n END) AS size
FROM task_flow WHERE span IN (-1, 0) AND event IN ('failed', 'replayed', 'discarded')
GROUP BY task_type, category HAVING size > 0

-- name: dead_letter_id_range
-- Ids grow with time unless the clock was set back, so up to 100 rows are read for each bound.
SELECT
    (SELECT min(id) FROM (
        SELECT id FROM dead_letter_queue INDEXED BY dead_letter_queue_moved
        WHERE moved_to_dlq_at >= :since ORDER BY moved_to_dlq_at LIMIT 100
    )),
    (SELECT max(id) FROM (
        SELECT id FROM dead_letter_queue INDEXED BY dead_letter_queue_moved
        WHERE moved_to_dlq_at < :until ORDER BY moved_to_dlq_at DESC LIMIT 100
    ))

-- name: list_dead_letters_by_id
-- The rows of a page, after a scan has found their ids. Without arguments and traceback, which may be large.
SELECT id, original_task_id, task_type, queue, error_type, error_message, error_category, reason, fingerprint, retry_count,
    replays, moved_to_dlq_at
FROM dead_letter_queue WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id DESC

-- part: scan_rows
SELECT id,
    {dead_letter_matches} AS fits
FROM dead_letter_queue

-- part: scan_all
{scan_rows} NOT INDEXED
WHERE id < :before AND id >= :least
ORDER BY id

-- part: scan_by_ids
{scan_rows} NOT INDEXED
WHERE id < :before AND id >= :least AND id IN (SELECT value FROM json_each(:ids))
ORDER BY id

-- part: scan_by_fingerprint
{scan_rows} INDEXED BY dead_letter_queue_fingerprint
WHERE id < :before AND id >= :least AND fingerprint = :fingerprint
ORDER BY id

-- part: scan_by_task_type
{scan_rows} INDEXED BY dead_letter_queue_task
WHERE id < :before AND id >= :least AND task_type = :task_type
ORDER BY id

-- part: scan_by_category
{scan_rows} INDEXED BY dead_letter_queue_category
WHERE id < :before AND id >= :least AND error_category = :category
ORDER BY id

-- name: newest_matching
-- Along the index of one filter, or the table itself, newest first; `fits` says whether the other filters match.
{scan_all} DESC

-- name: newest_matching_by_ids
-- The same for given ids.
{scan_by_ids} DESC

-- name: newest_matching_by_fingerprint
-- The same along the index of fingerprints.
{scan_by_fingerprint} DESC

-- name: newest_matching_by_task_type
-- The same along the index of task types.
{scan_by_task_type} DESC

-- name: newest_matching_by_category
-- The same along the index of categories.
{scan_by_category} DESC

-- name: next_matching
-- The same, oldest first.
{scan_all}

-- name: next_matching_by_ids
-- For given ids, oldest first.
{scan_by_ids}

-- name: next_matching_by_fingerprint
-- Along the index of fingerprints, oldest first.
{scan_by_fingerprint}

-- name: next_matching_by_task_type
-- Along the index of task types, oldest first.
{scan_by_task_type}

-- name: next_matching_by_category
-- Along the index of categories, oldest first.
{scan_by_category}

-- part: scan_counts
SELECT count(*), coalesce(sum(fits), 0), min(CASE WHEN fits THEN id END), max(CASE WHEN fits THEN id END), max(id)

-- name: count_matching
-- For a batch: how many rows were read, how many match, the first and last match, and where the batch ends.
{scan_counts}
FROM ({scan_all} LIMIT :batch)

-- name: count_matching_by_ids
-- The same for given ids.
{scan_counts}
FROM ({scan_by_ids} LIMIT :batch)

-- name: count_matching_by_fingerprint
-- The same along the index of fingerprints.
{scan_counts}
FROM ({scan_by_fingerprint} LIMIT :batch)

-- name: count_matching_by_task_type
-- The same along the index of task types.
{scan_counts}
FROM ({scan_by_task_type} LIMIT :batch)

-- name: count_matching_by_category
-- The same along the index of categories.
{scan_counts}
FROM ({scan_by_category} LIMIT :batch)

-- name: newest_dead_letter_id
-- The bound of a replay without filters: dead letters added later are not part of it.
SELECT max(id) FROM dead_letter_queue

-- name: delete_dead_letters
-- Returns what the counters need to know about each deleted row.
DELETE FROM dead_letter_queue WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING task_type, error_category, fingerprint

-- name: discard_tasks
-- Runs before delete_dead_letters, because it finds the tasks through the dead letters.
UPDATE task_queue SET status = 'DISCARDED', finished_at = :now, updated_at = :now
WHERE id IN (SELECT original_task_id FROM dead_letter_queue WHERE id IN (SELECT value FROM json_each(:ids)))
    AND status = 'FAILED'

-- name: edit_dead_letter
-- Only if nobody changed it meanwhile and its task is still failed.
UPDATE dead_letter_queue SET parameters = :after
WHERE id = :id AND parameters = :before
    AND EXISTS (SELECT 1 FROM task_queue WHERE task_queue.id = original_task_id AND status = 'FAILED')
RETURNING original_task_id

-- name: has_dead_letter
-- After an edit that changed nothing: tells whether the dead letter has changed or is gone.
SELECT EXISTS (
    SELECT 1 FROM dead_letter_queue CROSS JOIN task_queue ON task_queue.id = original_task_id
    WHERE dead_letter_queue.id = :id AND status = 'FAILED'
)

-- name: edit_task
-- In the transaction of edit_dead_letter: a replay runs the task with its own arguments.
UPDATE task_queue SET parameters = ?, updated_at = ? WHERE id = ?

-- name: add_payload_edit
-- In the transaction of edit_dead_letter, so every edit has a record.
INSERT INTO payload_edits (task_id, before, after, patch, who, reason, at)
VALUES (:task_id, :before, :after, :patch, :who, :reason, :now)

-- name: payload_edits
-- Used by the page of one task, oldest first.
SELECT id, task_id, before, after, patch, who, reason, at FROM payload_edits WHERE task_id = :task_id ORDER BY id

-- name: check_dead_letter_insert
-- Rolled back by the caller. Checks that a dead letter could be written.
INSERT INTO dead_letter_queue
    (original_task_id, task_type, queue, priority, parameters, error_type, error_message, error_category, reason,
     fingerprint, traceback, failure, retry_count, crash_count, replays, created_at, moved_to_dlq_at)
VALUES (-1, '', '', 0, '', '', '', '', '', '', '', '', 0, 0, 0, :now, :now)
