SELECT to_regclass('outlast.schema_version') IS NOT NULL
