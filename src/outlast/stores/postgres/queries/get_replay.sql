SELECT --replay--
FROM outlast.replays WHERE id = %(id)s
