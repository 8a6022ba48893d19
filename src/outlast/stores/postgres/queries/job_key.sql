-- The table's number tells schemas of one database apart, also where only the search path knows the schema. It is named
-- as a table, too, so that one that is not there is missed by name.
SELECT hashtextextended('outlast.job_runs'::regclass::oid || ' ' || %(job)s, 0)
FROM (SELECT count(*) FROM outlast.job_runs WHERE false) AS known
