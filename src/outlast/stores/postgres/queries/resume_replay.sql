-- What failed has been seen: it stops the replay no more, and is taken again at the end. The number of the replay is turned
-- negative in those, so that one which is committed later is news. The epoch rises: who held the replay before is refused.
WITH mine AS MATERIALIZED (
    SELECT id FROM outlast.replays WHERE id = %(id)s AND state IN ('stopped', 'cancelled') FOR UPDATE
),
letters AS (
    UPDATE outlast.dead_letter_queue AS letter SET replay_id = -mine.id
    FROM mine WHERE letter.replay_id = mine.id
    RETURNING letter.id
),
tasks AS (
    UPDATE outlast.task_queue AS task SET replay_id = NULL, canary = false
    FROM mine
    WHERE task.canary AND task.replay_id = mine.id AND task.status NOT IN ('QUEUED', 'RUNNING', 'PARKED')
),
again AS (
    SELECT count(*) AS size, min(id) AS first, max(id) AS last FROM letters
),
resumed AS (
    UPDATE outlast.replays AS known
    SET state = 'running', stage = 0, stopped_by = '', ended_at = NULL, updated_at = now(), lease_owner = NULL,
        leased_until = NULL, epoch = epoch + 1, total = total + again.size, newest = greatest(newest, again.last),
        cursor = least(cursor, again.first - 1)
    FROM mine, again
    WHERE known.id = mine.id
    RETURNING known.*
)
SELECT --replay--
FROM resumed
