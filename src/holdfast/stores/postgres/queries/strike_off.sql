-- What the struck-off held belongs to nobody from here on. A turn of theirs that is under way is waited for: it holds a lock.
DELETE FROM holdfast.workers WHERE expires_at <= now()
