UPDATE outlast.workers
SET heartbeat_at = now(), expires_at = now() + make_interval(secs => %(lease)s), state = %(state)s
WHERE id = %(id)s
