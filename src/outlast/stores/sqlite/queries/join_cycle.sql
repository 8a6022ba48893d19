UPDATE sources SET cycle = :cycle, outcome = NULL, lease_owner = NULL, leased_until = NULL
WHERE id IN (SELECT value FROM json_each(:ids))
