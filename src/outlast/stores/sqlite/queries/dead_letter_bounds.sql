-- Numbers grow with time, but for clocks that are set back: so some more than the first are asked.
SELECT
    (SELECT min(id) FROM (
        SELECT id FROM dead_letter_queue INDEXED BY dead_letter_queue_moved
        WHERE moved_to_dlq_at >= :since ORDER BY moved_to_dlq_at LIMIT 100
    )),
    (SELECT max(id) FROM (
        SELECT id FROM dead_letter_queue INDEXED BY dead_letter_queue_moved
        WHERE moved_to_dlq_at < :until ORDER BY moved_to_dlq_at DESC LIMIT 100
    ))
