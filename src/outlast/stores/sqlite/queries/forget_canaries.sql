-- Those that are over; the first stage is gone through anew.
UPDATE task_queue INDEXED BY task_queue_canaries SET canary = 0
WHERE canary = 1 AND replay_id = :id AND status NOT IN ('QUEUED', 'RUNNING', 'PARKED')
