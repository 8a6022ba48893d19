-- A dead letter of any of its tasks counts; of what was cancelled or discarded, the canaries alone.
WITH mine (id, status) AS MATERIALIZED (
    SELECT id, status FROM task_queue INDEXED BY task_queue_canaries WHERE canary = 1 AND replay_id = :id
)
SELECT
    (SELECT count(*) FROM mine WHERE status IN ('QUEUED', 'RUNNING', 'PARKED')),
    (SELECT count(*) FROM mine WHERE status = 'DONE'),
    (
        SELECT json_array(original_task_id, error_message)
        FROM dead_letter_queue INDEXED BY dead_letter_queue_replays
        WHERE replay_id = :id AND id > (SELECT forgiven FROM replays WHERE replays.id = :id) ORDER BY id LIMIT 1
    ),
    (
        SELECT json_array(id, 'it was ' || lower(status)) FROM mine
        WHERE status IN ('CANCELLED', 'DISCARDED') ORDER BY id LIMIT 1
    )
