-- The ids lead, each to its row.
SELECT target.source_id
FROM json_each(:ids) AS given CROSS JOIN job_targets AS target ON target.run_id = :run_id AND target.source_id = given.value
WHERE target.status IN ('success', 'skipped')
