-- A task that failed and whose dead letter somebody has deleted by hand: it gets one anew, from itself and its last attempt.
INSERT INTO dead_letter_queue
    (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
     error_type, error_message, error_category, reason, fingerprint, traceback, failure,
     retry_count, crash_count, replays, worker_id, created_at, moved_to_dlq_at, replay_id)
SELECT
    task.id, task.task_type, task.queue, task.priority, task.parameters, task.resource, task.unique_key,
    coalesce(last.error_type, ''), coalesce(last.error_message, ''), coalesce(last.error_category, 'unknown'), 'exhausted',
    coalesce(last.fingerprint, ''), coalesce(last.traceback, ''), coalesce(last.failure, '{}'),
    task.retry_count, task.crash_count, task.replays, task.worker_id, task.created_at, :now, task.replay_id
FROM task_queue AS task
LEFT JOIN task_attempts AS last ON last.id = (SELECT max(id) FROM task_attempts WHERE task_id = task.id)
WHERE task.status = 'FAILED' AND task.id NOT IN (SELECT original_task_id FROM dead_letter_queue)
ORDER BY task.id
