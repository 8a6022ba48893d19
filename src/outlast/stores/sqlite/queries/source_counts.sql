SELECT state, count(*) FROM sources WHERE :profile IS NULL OR profile = :profile GROUP BY state
