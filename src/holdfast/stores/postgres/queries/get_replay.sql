SELECT --replay--
FROM holdfast.replays WHERE id = %(id)s
