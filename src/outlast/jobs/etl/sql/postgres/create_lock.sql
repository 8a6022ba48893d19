-- Two processes that create the table at once would meet in the system's own tables.
SELECT pg_advisory_xact_lock(hashtext('outlast.jobs.etl'), hashtext(%(table)s))
