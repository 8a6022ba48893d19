SELECT resource, until, reason FROM holdfast.cooldowns WHERE until > now() ORDER BY resource
