-- Those of workers that are not known any more, and of others that have told nothing for long.
DELETE FROM breakers
WHERE CASE WHEN is_worker THEN process NOT IN (SELECT id FROM workers) ELSE updated_at < :before END
