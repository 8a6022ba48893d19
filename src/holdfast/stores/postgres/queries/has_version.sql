SELECT to_regclass('holdfast.schema_version') IS NOT NULL
