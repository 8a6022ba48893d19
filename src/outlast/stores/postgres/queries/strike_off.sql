-- What the struck-off held belongs to nobody from here on. One whose turn is under way is passed over: its row is locked, and
-- who waited for it here would miss his own heartbeats.
DELETE FROM outlast.workers
WHERE id IN (SELECT id FROM outlast.workers WHERE expires_at <= now() FOR UPDATE SKIP LOCKED)
