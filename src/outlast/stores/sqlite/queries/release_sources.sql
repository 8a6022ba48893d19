UPDATE sources SET lease_owner = NULL, leased_until = NULL WHERE lease_owner = :owner AND outcome IS NULL
