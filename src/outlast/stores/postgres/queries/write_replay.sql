UPDATE outlast.replays
SET cursor = %(cursor)s, stage = %(stage)s, replayed = replayed + %(replayed)s, conflicts = conflicts + %(conflicts)s,
    conflict_ids = (conflict_ids || %(conflict_ids)s::bigint[])[1:%(most)s], updated_at = now()
WHERE id = %(id)s
