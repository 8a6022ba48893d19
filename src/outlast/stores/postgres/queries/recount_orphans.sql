-- A task that failed and whose dead letter somebody has deleted by hand: it gets one anew, from itself and its last attempt.
INSERT INTO outlast.dead_letter_queue
    (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
     error_type, error_message, error_category, reason, fingerprint, traceback, failure,
     retry_count, crash_count, replays, worker_id, created_at, moved_to_dlq_at, replay_id)
SELECT
    task.id, task.task_type, task.queue, task.priority, task.parameters, task.resource, task.unique_key,
    coalesce(last.error_type, ''), coalesce(last.error_message, ''), coalesce(last.error_category, 'unknown'), 'exhausted',
    coalesce(last.fingerprint, ''), coalesce(last.traceback, ''), coalesce(last.failure, '{}'),
    task.retry_count, task.crash_count, task.replays, task.worker_id, task.created_at, now(), task.replay_id
FROM outlast.task_queue AS task
LEFT JOIN LATERAL (
    SELECT * FROM outlast.task_attempts AS tried WHERE tried.task_id = task.id ORDER BY tried.id DESC LIMIT 1
) AS last ON true
WHERE task.status = 'FAILED'
    AND NOT EXISTS (SELECT FROM outlast.dead_letter_queue AS letter WHERE letter.original_task_id = task.id)
ORDER BY task.id
ON CONFLICT (original_task_id) DO NOTHING
