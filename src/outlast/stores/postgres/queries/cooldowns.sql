SELECT resource, until, reason, capped FROM outlast.cooldowns WHERE until > now() ORDER BY resource
