DELETE FROM outlast.queues WHERE name = %(name)s
