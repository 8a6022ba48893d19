UPDATE sources INDEXED BY sources_cycle SET pending = NULL WHERE cycle = :cycle AND pending IS NOT NULL
