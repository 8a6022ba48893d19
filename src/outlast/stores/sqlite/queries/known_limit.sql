SELECT tat, spread, spread_rate, slot_spread, retry_tat, retry_spread, retry_again, retry_rate, mean, asked_at
FROM resource_limits
WHERE resource = ?
