INSERT OR REPLACE INTO resource_limits
    (resource, rate, burst, concurrency, retries, retry_burst, tat, spread, spread_rate, slot_spread, retry_tat,
     retry_spread, retry_again, retry_rate, mean, asked_at)
VALUES
    (:resource, :rate, :burst, :concurrency, :retries, :retry_burst, :tat, :spread, :spread_rate, :slot_spread,
     :retry_tat, :retry_spread, :retry_again, :retry_rate, :mean, :asked_at)
