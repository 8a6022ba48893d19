-- The counts by the books beside those of what is there: one statement, so both are of one moment.
WITH by_books (name, n) AS (
--counts--
), there (name, n) AS (
--count_rows--
)
SELECT
    (SELECT json_agg(json_build_array(name, n)) FROM by_books),
    (SELECT json_agg(json_build_array(name, n)) FROM there)
