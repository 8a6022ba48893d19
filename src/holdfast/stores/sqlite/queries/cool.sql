INSERT INTO cooldowns (resource, until, reason) VALUES (:resource, :until, :reason)
ON CONFLICT (resource) DO UPDATE SET until = excluded.until, reason = excluded.reason
WHERE excluded.until > cooldowns.until
