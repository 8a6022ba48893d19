-- By name, so that two who ask for several never wait for each other. Nobody waits long, and who falls silent with the lock
-- is hung up on: the settings are for this transaction, and made before the first row is locked.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(wait)s, true), set_config('idle_in_transaction_session_timeout', %(silence)s, true)
)
SELECT resource, tat, spread, spread_rate, slot_spread, retry_tat, retry_spread, retry_again, retry_rate, mean, asked_at
FROM patience CROSS JOIN outlast.resource_limits AS known
WHERE resource = ANY (%(resources)s::text[])
ORDER BY resource
FOR UPDATE OF known
