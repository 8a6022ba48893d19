-- By name: in the order of the table no sorting would be needed, but all of it would be read.
INDEXED BY sources_cycle
WHERE cycle = :cycle ORDER BY id
