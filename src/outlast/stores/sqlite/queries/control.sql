-- What a turn has to know first: whether its worker is known, which queues are paused, what cools down.
SELECT
    (SELECT 1 FROM workers WHERE id = :worker_id),
    (SELECT json_group_array(name) FROM queues WHERE paused = 1),
    EXISTS (SELECT 1 FROM cooldowns WHERE until > :now)
