-- A dead letter of any task of the replay; or a canary that was taken away, of which none is kept.
SELECT live, done, bad.task_id, bad.error
FROM (
    SELECT count(*) FILTER (WHERE status IN ('QUEUED', 'RUNNING', 'PARKED')) AS live,
        count(*) FILTER (WHERE status = 'DONE') AS done
    FROM outlast.task_queue WHERE canary AND replay_id = %(id)s
) AS tasks
LEFT JOIN (
    (
        SELECT original_task_id AS task_id, error_message AS error FROM outlast.dead_letter_queue
        WHERE replay_id = %(id)s ORDER BY replay_id, id LIMIT 1
    )
    UNION ALL
    (
        SELECT id, 'it was ' || lower(status) FROM outlast.task_queue
        WHERE canary AND replay_id = %(id)s AND status IN ('CANCELLED', 'DISCARDED') ORDER BY replay_id, id LIMIT 1
    )
    LIMIT 1
) AS bad ON true
