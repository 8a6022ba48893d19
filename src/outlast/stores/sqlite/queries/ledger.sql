-- The counts by the books beside those of what is there: one statement, so both are of one moment.
WITH by_books (name, n) AS (
--counts--
), there AS (
--count_rows--
)
SELECT (SELECT json_group_array(json_array(name, n)) FROM by_books), there.* FROM there
