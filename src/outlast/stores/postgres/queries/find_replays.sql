SELECT --replay--
FROM outlast.replays WHERE NOT %(running)s::boolean OR state = 'running'
ORDER BY id DESC LIMIT %(limit)s
