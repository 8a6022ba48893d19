-- name: has_version
-- to_regclass() returns NULL for a missing table, so nothing fails on an empty database.
SELECT to_regclass('{schema}schema_version') IS NOT NULL

-- name: schema_version
-- One row per migration; the largest is the version of the tables.
SELECT max(version) FROM {schema}schema_version

-- name: create_version
-- Before the first migration; the table is not part of the migrations.
CREATE TABLE {schema}schema_version (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())

-- name: add_version
-- In the transaction of its migration.
INSERT INTO {schema}schema_version (version) VALUES (%(version)s)

-- name: receives_move
-- Whether a file is being moved to these tables: nobody else may write to them then.
SELECT EXISTS (
    SELECT FROM pg_trigger WHERE tgrelid = to_regclass('{schema}task_queue') AND tgname = 'outlast_moving'
)
