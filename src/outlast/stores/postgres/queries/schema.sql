-- name: has_version
-- to_regclass() returns NULL for a missing table, so nothing fails on an empty database.
SELECT to_regclass('{schema}schema_version') IS NOT NULL

-- name: find_schema
-- The tables are recognised by their columns, because a user may have a task_queue too. Catalogs are readable without
-- rights to the schemas.
SELECT nspname
FROM pg_namespace
JOIN pg_class ON relnamespace = pg_namespace.oid AND relname IN ('task_queue', 'schema_version')
JOIN pg_attribute ON attrelid = pg_class.oid AND attname = CASE relname WHEN 'task_queue' THEN 'lease_epoch' ELSE 'applied_at' END
WHERE nspname = 'outlast' OR nspname = ANY (current_schemas(false))
GROUP BY nspname
HAVING count(*) = 2
ORDER BY nspname <> 'outlast', array_position(current_schemas(false), nspname)
LIMIT 1

-- name: move_statements
-- For an error message: what to run to move all tables of a schema. Indexes, sequences and triggers move along.
SELECT format('ALTER TABLE %%I.%%I SET SCHEMA outlast;', nspname, relname)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %(schema)s AND relkind = 'r' AND relname = ANY (%(tables)s)
UNION ALL
SELECT format('ALTER FUNCTION %%I.%%I() SET SCHEMA outlast;', nspname, proname)
FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
WHERE nspname = %(schema)s AND proname IN ('book_task', 'outlast_moving')
ORDER BY 1

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

-- name: missing_tables
-- Tables that were dropped by hand or left out of a restore; to_regclass() returns NULL for them.
SELECT name FROM unnest(%(tables)s::text[]) AS name WHERE to_regclass('{schema}' || name) IS NULL ORDER BY name
