-- For all failures of a cycle at once.
UPDATE outlast.sources SET pending = NULL WHERE cycle = %(cycle)s AND pending IS NOT NULL
