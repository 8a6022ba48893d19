-- Dead letters, newest first, along one index and no further than told. By pairs of its column and the number: no other index
-- has this order, so whatever the planner expects, it passes over nothing else. A row that does not match is passed over; the
-- last one that was looked at is returned in any case, and tells how far it went.
--
-- A letter has the time at which its transaction began and a number drawn later, within a minute as a rule: so a time that is
-- asked for bounds the numbers too. A few are asked, for one of a transaction that took longer says nothing of the others.
SELECT place, last, matches, id, original_task_id, task_type, queue, error_type, error_message, error_category, reason,
    fingerprint, retry_count, replays, moved_to_dlq_at
FROM (
    SELECT row_number() OVER walk AS place, lead(id) OVER walk IS NULL AS last,
        --meant-- AS matches,
        walked.*
    FROM (
        SELECT id, original_task_id, task_type, queue, error_type, error_message, error_category, reason, fingerprint,
            retry_count, replays, moved_to_dlq_at
        FROM outlast.dead_letter_queue
        --walk--
        LIMIT %(look)s + 1
    ) AS walked
    WINDOW walk AS (ORDER BY --order--)
) AS looked
WHERE place <= %(look)s AND matches OR place = %(look)s OR last
ORDER BY --order-- LIMIT %(rows)s
