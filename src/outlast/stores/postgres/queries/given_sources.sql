SELECT sources.id
FROM ROWS FROM (json_to_recordset(%(sources)s::json) AS (profile text, url text)) WITH ORDINALITY AS given (profile, url, place)
LEFT JOIN outlast.sources ON sources.profile = given.profile AND sources.url = given.url
ORDER BY place
