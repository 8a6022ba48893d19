-- Delivered when the transaction commits, once however often it was called. The table's own number names the channel:
-- safe to use as a name, and the same for all who use this table, by whatever search path.
SELECT pg_notify('outlast_' || 'outlast.task_queue'::regclass::oid, '')
