SELECT resource, until, reason, capped FROM holdfast.cooldowns WHERE until > now() ORDER BY resource
