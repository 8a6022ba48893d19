SELECT max(version) FROM holdfast.schema_version
