-- Whoever comes second waits for the first to commit, and adds nothing.
INSERT INTO outlast.cycles (profile) VALUES (%(profile)s)
ON CONFLICT (profile) WHERE ended_at IS NULL DO NOTHING
RETURNING id
