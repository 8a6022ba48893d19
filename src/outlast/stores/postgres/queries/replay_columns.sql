id, which, canary, rate, state, stage, total, newest, cursor, replayed, conflicts, conflict_ids, stopped_by, who, reason,
    epoch, created_at, updated_at, ended_at
