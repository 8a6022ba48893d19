-- The time that had come is the fence: whoever is second changes nothing.
UPDATE periodic SET next_run_at = :next, last_run_at = :now WHERE name = :name AND next_run_at = :due
