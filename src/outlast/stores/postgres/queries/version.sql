SELECT max(version) FROM outlast.schema_version
