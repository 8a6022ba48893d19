-- A session's name ends with it: nobody dead is ever named. The name is read after the lock, for a session has it before. A
-- number of 64 bits stands in two columns.
WITH held AS MATERIALIZED (
    SELECT pid FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32 | objid::bigint) = %(key)s
)
SELECT session.application_name FROM held CROSS JOIN LATERAL pg_stat_get_activity(held.pid) AS session
