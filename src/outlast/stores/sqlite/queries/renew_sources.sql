UPDATE sources SET leased_until = :until WHERE lease_owner = :owner AND outcome IS NULL
