DELETE FROM outlast.cycles
WHERE profile = %(profile)s AND ended_at IS NOT NULL AND id <= (
    SELECT id FROM outlast.cycles
    WHERE profile = %(profile)s AND ended_at IS NOT NULL
    ORDER BY id DESC LIMIT 1 OFFSET %(kept)s
)
