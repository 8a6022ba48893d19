-- Those that a replay has queued itself, and that failed before it was resumed.
SELECT id, 1 FROM dead_letter_queue INDEXED BY dead_letter_queue_replays
WHERE replay_id = :replay_id AND id > :after AND id <= :newest ORDER BY id
