-- The sources are locked, so their last lines stay the last. A line more pushes out the oldest that is kept.
WITH given AS MATERIALIZED (
    SELECT given.*,
        row_number() OVER (PARTITION BY source_id ORDER BY place) + coalesce((
            SELECT polls.id FROM outlast.source_polls AS polls
            WHERE polls.source_id = given.source_id
            ORDER BY polls.id DESC LIMIT 1
        ), 0) AS id
    FROM ROWS FROM (json_to_recordset(%(polls)s::json) AS (
        source_id bigint, cycle bigint, at timestamptz, outcome text, attempts integer, http_status integer, category text,
        error text, before text, after text
    )) WITH ORDINALITY AS given (
        source_id, cycle, at, outcome, attempts, http_status, category, error, before, after, place
    )
),
old AS (
    DELETE FROM outlast.source_polls AS polls USING given
    WHERE given.source_id BETWEEN 1 AND 9223372036854775807
        AND polls.source_id = given.source_id AND polls.id = given.id - %(kept)s
)
INSERT INTO outlast.source_polls
    (source_id, id, cycle, at, outcome, attempts, http_status, category, error, before, after)
SELECT source_id, id, cycle, at, outcome, attempts, http_status, category, error, before, after FROM given
