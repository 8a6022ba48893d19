-- For each source the end of its index alone; the lines are read by their numbers.
SELECT polls.source_id, polls.cycle, polls.at, polls.outcome, polls.attempts, polls.http_status, polls.category,
    polls.error, polls.before, polls.after
FROM json_each(:source_ids) AS wanted
CROSS JOIN source_polls AS polls
WHERE polls.id IN (
    SELECT id FROM source_polls INDEXED BY source_polls_source
    WHERE source_id = wanted.value ORDER BY id DESC LIMIT :limit
)
ORDER BY polls.id DESC
