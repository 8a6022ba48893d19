INSERT INTO outlast.schema_version (version) VALUES (%(version)s)
