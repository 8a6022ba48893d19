UPDATE replays
SET stage = :stage, cursor = :cursor, replayed = replayed + :replayed, conflicts = conflicts + :conflicts,
    conflict_ids = :conflict_ids, updated_at = :now
WHERE id = :id
