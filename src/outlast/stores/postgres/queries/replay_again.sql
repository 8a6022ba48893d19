-- The next dead letters of those that failed in the replay itself before it was resumed, whatever they are now.
SELECT id FROM outlast.dead_letter_queue
WHERE replay_id = -%(id)s::bigint AND id > %(cursor)s AND id <= %(newest)s
ORDER BY replay_id, id LIMIT %(limit)s
