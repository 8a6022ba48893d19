-- For all failures of a cycle at once.
UPDATE holdfast.sources SET pending = NULL WHERE cycle = %(cycle)s AND pending IS NOT NULL
