"""The tables in PostgreSQL and their version."""

from outlast.errors import SchemaError
from outlast.stores.postgres.connection import (
    LATEST,
    PostgresCursor,
    PostgresDatabase,
    raise_if_elsewhere,
    schema_version,
)
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.sql import scripts, tables_until
from outlast.stores.rules import missing_tables_error

_MIGRATION_LOCK = 0x6F75746C617374  # "outlast": one migration at a time in a database


class PostgresSchema:
    """Implements `Schema`. Tables are created only on request: `outlast db init`."""

    db: PostgresDatabase

    def create_schema(self) -> int:
        """Migrate the tables; return the version. An advisory lock allows one migration at a time."""
        with self.db.transaction() as cursor:
            execute, schema = cursor.connection.execute, self.db.schema
            execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            version = schema_version(cursor)
            if version == 0:
                if self.db.has_default_schema:
                    raise_if_elsewhere(cursor)
                _create_namespace(cursor, schema)
                cursor.change("create_version")
            elif version < LATEST:
                execute(self.db.sql["delete_all_workers"])  # several commands
            for number, script in scripts(schema).items():
                if number > version:
                    execute(script)
                    cursor.change("add_version", {"version": number})
            return max(version, LATEST)

    def check_schema(self) -> int:
        """Check the version of the tables, and that none is missing; return the version."""
        version = schema_version(self.db)
        if version == 0 and self.db.has_default_schema:
            with self.db.transaction() as cursor:
                raise_if_elsewhere(cursor)
        if version != LATEST:
            raise SchemaError(version, LATEST)
        missing = self.db.fetch("missing_tables", {"tables": tables_until(LATEST)})
        if missing:
            raise missing_tables_error([name for (name,) in missing], LATEST)
        return LATEST


def _create_namespace(cursor: PostgresCursor, schema: str) -> None:
    """Create the schema if it does not exist: IF NOT EXISTS would need the right to create one even if it does."""
    execute = cursor.connection.execute
    if execute("SELECT to_regnamespace(%s)", (schema,)).fetchall()[0][0]:
        return
    role, database = execute("SELECT quote_ident(current_user), current_database()").fetchall()[0]
    try:
        execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(schema)))
    except psycopg.errors.InsufficientPrivilege:
        raise SchemaError(
            0,
            LATEST,
            f"the schema {schema} does not exist, and the role {role} may not create it; connect to the database "
            f"{database} as an administrator and run: CREATE SCHEMA {schema} AUTHORIZATION {role}",
        ) from None
