INSERT INTO holdfast.schema_version (version) VALUES (%(version)s)
