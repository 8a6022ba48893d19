-- Running by the books, while nobody known holds them. Who holds anything is read from the index by jumps from name to name,
-- not by reading all that runs. One that had not begun comes back as it was; the epoch rises, so that a worker that only
-- seemed dead is refused. A crash counts for one that was running alone; it is the last one of a canary, which gets one
-- attempt.
WITH RECURSIVE holders (worker_id) AS (
    (
        SELECT worker_id FROM outlast.task_queue
        WHERE status = 'RUNNING' AND worker_id IS NOT NULL
        ORDER BY worker_id LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT task.worker_id FROM outlast.task_queue AS task
        WHERE task.status = 'RUNNING' AND task.worker_id > holders.worker_id
        ORDER BY task.worker_id LIMIT 1
    )
    FROM holders WHERE holders.worker_id IS NOT NULL
),
orphans AS MATERIALIZED (
    SELECT task.*
    FROM (
        SELECT worker_id FROM holders WHERE worker_id IS NOT NULL AND worker_id NOT IN (SELECT id FROM outlast.workers)
    ) AS dead
    CROSS JOIN LATERAL (
        SELECT id, worker_id, started_at, crash_count + (suspect AND alone)::integer AS crashes,
            canary AND suspect AND alone AS spent
        FROM outlast.task_queue
        WHERE status = 'RUNNING' AND task_queue.worker_id = dead.worker_id
        LIMIT %(batch)s
        FOR UPDATE SKIP LOCKED
    ) AS task
    LIMIT %(batch)s
),
judged AS MATERIALIZED (
    SELECT id, worker_id, crashes, CASE
        WHEN started_at IS NULL THEN 'unspent'
        WHEN spent OR crashes >= %(crash_limit)s THEN 'dead'
        ELSE 'suspect'
    END AS outcome
    FROM orphans
),
changed AS (
    UPDATE outlast.task_queue AS task
    SET status = CASE outcome WHEN 'dead' THEN 'FAILED' ELSE 'QUEUED' END,
        suspect = CASE outcome WHEN 'unspent' THEN task.suspect ELSE outcome = 'suspect' END,
        crash_count = CASE outcome WHEN 'unspent' THEN task.crash_count ELSE crashes END,
        last_error = CASE outcome WHEN 'unspent' THEN task.last_error ELSE %(error_message)s END,
        failed_at = CASE outcome WHEN 'dead' THEN now() ELSE task.failed_at END,
        lease_epoch = task.lease_epoch + 1, alone = false, updated_at = now()
    FROM judged
    WHERE task.id = judged.id
    RETURNING task.*, judged.outcome
),
history AS (
    INSERT INTO outlast.task_attempts
        (task_id, attempt, outcome, worker_id, started_at, finished_at,
         error_type, error_message, error_category, fingerprint, traceback, failure)
    SELECT id, attempt, 'lost', worker_id, started_at, now(),
        %(error_type)s, %(error_message)s, %(error_category)s, %(fingerprint)s, %(traceback)s, %(failure)s
    FROM changed WHERE outcome <> 'unspent'
    ORDER BY id
),
letters AS (
    INSERT INTO outlast.dead_letter_queue
        (original_task_id, task_type, queue, priority, parameters, resource, unique_key,
         error_type, error_message, error_category, reason, fingerprint, traceback, failure,
         retry_count, crash_count, replays, replay_id, worker_id, created_at, moved_to_dlq_at)
    SELECT id, task_type, queue, priority, parameters, resource, unique_key,
        %(error_type)s, %(error_message)s, %(error_category)s, CASE WHEN canary THEN 'canary' ELSE 'crash' END,
        %(fingerprint)s, %(traceback)s, %(failure)s,
        retry_count, crash_count, replays, replay_id, worker_id, created_at, now()
    FROM changed WHERE outcome = 'dead'
    ORDER BY id
),
told AS (
    INSERT INTO outlast.task_flow (event, task_type, category, fingerprint, n)
    SELECT CASE outcome WHEN 'dead' THEN 'failed' ELSE 'lost' END, task_type, %(error_category)s, %(fingerprint)s, count(*)
    FROM changed WHERE outcome <> 'unspent'
    GROUP BY outcome, task_type
),
grouped AS (
    INSERT INTO outlast.failure_groups
        (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen)
    SELECT %(fingerprint)s, task_type, %(error_type)s, %(error_category)s, %(error_message)s, now(), now()
    FROM changed WHERE outcome <> 'unspent'
    ORDER BY id LIMIT 1
    ON CONFLICT DO NOTHING
)
SELECT id, worker_id, outcome FROM changed ORDER BY id
