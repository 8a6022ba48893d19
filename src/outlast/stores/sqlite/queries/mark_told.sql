UPDATE failure_groups INDEXED BY failure_groups_untold SET told = 1
WHERE told = 0 AND EXISTS (SELECT 1 FROM alerts INDEXED BY alerts_key WHERE key = 'group:' || fingerprint)
