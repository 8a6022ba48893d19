INSERT INTO cooldowns (resource, until, reason, capped, probing) VALUES (:resource, :until, :reason, :capped, :probing)
ON CONFLICT (resource) DO UPDATE
SET until = excluded.until, reason = excluded.reason, capped = excluded.capped, probing = excluded.probing
