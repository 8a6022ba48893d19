-- name: has_version
SELECT to_regclass('{schema}schema_version') IS NOT NULL

-- name: schema_version
SELECT max(version) FROM {schema}schema_version

-- name: create_version
CREATE TABLE {schema}schema_version (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())

-- name: add_version
INSERT INTO {schema}schema_version (version) VALUES (%(version)s)

-- name: receives_move
-- Whether a file is being moved to these tables: nobody else may write to them then.
SELECT EXISTS (
    SELECT FROM pg_trigger WHERE tgrelid = to_regclass('{schema}task_queue') AND tgname = 'outlast_moving'
)
