-- Before a migration: all workers lose their leases, and who registers meanwhile waits for its end. First, as a turn has it.
LOCK TABLE outlast.workers IN ACCESS EXCLUSIVE MODE;
DELETE FROM outlast.workers
