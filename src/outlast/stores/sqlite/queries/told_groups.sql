-- Those of which an alert was written since somebody looked.
SELECT EXISTS (
    SELECT 1 FROM failure_groups INDEXED BY failure_groups_untold
    WHERE told = 0 AND EXISTS (SELECT 1 FROM alerts INDEXED BY alerts_key WHERE key = 'group:' || fingerprint)
)
