SELECT EXISTS (
    SELECT 1 FROM breakers
    WHERE CASE WHEN is_worker THEN process NOT IN (SELECT id FROM workers) ELSE updated_at < :before END
)
