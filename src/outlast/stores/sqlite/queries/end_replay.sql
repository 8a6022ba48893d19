UPDATE replays
SET state = :state, stopped_by = :why, ended_at = :now, updated_at = :now, lease_owner = NULL, leased_until = NULL
WHERE id = :id AND state = 'running' AND (:epoch IS NULL OR epoch = :epoch)
