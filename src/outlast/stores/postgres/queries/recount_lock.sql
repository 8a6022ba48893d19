-- No roll-up until the end of this transaction; it would move rows between two looks at them.
SELECT pg_advisory_xact_lock(7093010443484004352 | 'outlast.task_flow'::regclass::oid::bigint)
