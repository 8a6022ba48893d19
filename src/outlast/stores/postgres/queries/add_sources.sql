-- Numbers are drawn in the order in which the sources were given; the rows go in in the order of their keys, so that two
-- callers with the same ones wait for each other in turn and not in a circle. What is known draws no number.
WITH given AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (json_to_recordset(%(sources)s::json) AS (profile text, url text, name text, selector text))
        WITH ORDINALITY AS given (profile, url, name, selector, place)
),
fresh AS MATERIALIZED (
    SELECT DISTINCT ON (profile, url) * FROM given
    WHERE NOT EXISTS (SELECT FROM outlast.sources WHERE sources.profile = given.profile AND sources.url = given.url)
    ORDER BY profile, url, place
),
numbered AS MATERIALIZED (
    SELECT nextval('outlast.sources_id_seq') AS id, ordered.* FROM (SELECT * FROM fresh ORDER BY place) AS ordered
)
INSERT INTO outlast.sources (id, profile, url, name, selector)
SELECT id, profile, url, name, selector FROM numbered ORDER BY profile, url
ON CONFLICT (profile, url) DO NOTHING
RETURNING id
