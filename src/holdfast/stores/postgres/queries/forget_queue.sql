DELETE FROM holdfast.queues WHERE name = %(name)s
