-- For each source the end of its index alone.
SELECT polls.source_id, polls.cycle, polls.at, polls.outcome, polls.attempts, polls.http_status, polls.category,
    polls.error, polls.before, polls.after
FROM (SELECT DISTINCT unnest(%(ids)s::bigint[]) AS source_id) AS wanted
CROSS JOIN LATERAL (
    SELECT * FROM outlast.source_polls
    WHERE source_polls.source_id = wanted.source_id
    ORDER BY id DESC LIMIT %(limit)s
) AS polls
ORDER BY polls.source_id, polls.id DESC
