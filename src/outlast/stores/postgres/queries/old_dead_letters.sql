SELECT id FROM outlast.dead_letter_queue
WHERE moved_to_dlq_at < now() - make_interval(secs => %(seconds)s)
ORDER BY moved_to_dlq_at LIMIT %(batch)s
FOR UPDATE SKIP LOCKED
