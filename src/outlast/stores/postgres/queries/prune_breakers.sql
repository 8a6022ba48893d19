-- Those of workers that are not known any more, and of others that have told nothing for long.
DELETE FROM outlast.breakers
WHERE CASE
    WHEN is_worker THEN process NOT IN (SELECT id FROM outlast.workers)
    ELSE updated_at < now() - make_interval(secs => %(seconds)s)
END
