-- Whoever held it is refused from here on. What of it has failed stops it no more, and is taken again at the end.
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
