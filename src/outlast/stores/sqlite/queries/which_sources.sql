WHERE (:profile IS NULL OR profile = :profile)
    AND (:state IS NULL OR state = :state)
    AND (:url IS NULL OR url = :url)
    AND (:text IS NULL OR instr(url, :text) > 0 OR instr(name, :text) > 0)
    AND id > coalesce(:after, 0)
ORDER BY id
LIMIT coalesce(:limit, -1)
