INSERT INTO holdfast.cooldowns AS known (resource, until, reason)
VALUES (%(resource)s, now() + make_interval(secs => %(seconds)s), %(reason)s)
ON CONFLICT (resource) DO UPDATE SET until = excluded.until, reason = excluded.reason WHERE excluded.until > known.until
