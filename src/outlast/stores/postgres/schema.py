"""The tables in PostgreSQL and their version."""

from outlast.errors import SchemaError
from outlast.stores.postgres.connection import PostgresDatabase, schema_version
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.sql import scripts

_MIGRATION_LOCK = 0x6F75746C617374  # "outlast": one migration at a time in a database
LATEST = max(scripts(None))


class PostgresSchema:
    """Implements `Schema`. Tables are created only on request: `outlast db init`."""

    db: PostgresDatabase

    def create_schema(self) -> int:
        """Migrate the tables; return the version. An advisory lock allows one migration at a time."""
        with self.db.transaction() as cursor:
            execute, schema = cursor.connection.execute, self.db.schema
            execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            if schema is not None and not execute("SELECT to_regnamespace(%s)", (schema,)).fetchall()[0][0]:
                execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(schema)))
            version = schema_version(cursor)
            if version == 0:
                cursor.change("create_version")
            elif version < LATEST:
                execute(self.db.sql["delete_all_workers"])  # several commands
            for number, script in scripts(schema).items():
                if number > version:
                    execute(script)
                    cursor.change("add_version", {"version": number})
            return max(version, LATEST)

    def check_schema(self) -> None:
        """Check the version of the tables."""
        version = schema_version(self.db)
        if version != LATEST:
            raise SchemaError(version, LATEST)

    def close(self) -> None:
        """Close all connections."""
        self.db.close()
