-- A known one changes nothing and returns no row.
INSERT INTO sources (url, profile, name, selector, next_poll_at, created_at)
VALUES (:url, :profile, :name, :selector, :now, :now)
ON CONFLICT (profile, url) DO NOTHING
RETURNING id
