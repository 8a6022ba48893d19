-- Up to which time a batch goes: a whole step at least, for what is of one step stands together.
SELECT max(at) FROM (SELECT at FROM task_flow WHERE span = :span AND at < :before ORDER BY at LIMIT :batch)
