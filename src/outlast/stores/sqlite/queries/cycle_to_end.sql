-- One that runs, if nothing of it is still to be polled.
WHERE id = :cycle AND ended_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM sources INDEXED BY sources_cycle WHERE cycle = :cycle AND outcome IS NULL)
