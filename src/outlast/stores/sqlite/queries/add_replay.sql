INSERT INTO replays (which, canary, rate, total, newest, bound, cursor, who, reason, created_at, updated_at)
VALUES (:which, :canary, :rate, :total, :newest, :newest, :cursor, :who, :reason, :now, :now)
