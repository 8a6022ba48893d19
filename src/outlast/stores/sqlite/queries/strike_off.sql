-- Looks at the leases again: one may have been renewed since. What the struck-off held belongs to nobody from here on.
DELETE FROM workers WHERE expires_at <= :now OR id IN (SELECT value FROM json_each(:dead)) RETURNING id
