UPDATE workers SET heartbeat_at = :now, expires_at = :expires_at, state = :state WHERE id = :id
