-- By pairs: no other index has this order, so whatever the planner expects, it walks from the newest of the group on.
SELECT task_id, attempt, outcome, worker_id, started_at, finished_at,
    error_type, error_message, error_category, fingerprint, delay, traceback, failure
FROM outlast.task_attempts
WHERE (fingerprint, id) >= (%(fingerprint)s, 0) AND (fingerprint, id) <= (%(fingerprint)s, 9223372036854775807)
ORDER BY fingerprint DESC, id DESC LIMIT %(limit)s
