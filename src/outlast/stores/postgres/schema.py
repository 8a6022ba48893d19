"""The tables in PostgreSQL and their version."""

from typing import Any

from outlast.errors import SchemaError
from outlast.stores.postgres.connection import Connection, PostgresDatabase
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.sql import scripts

_MIGRATION_LOCK = 0x6F75746C617374  # "outlast": one migration at a time in a database
LATEST = max(scripts(None))


class PostgresSchema:
    """Implements `Schema`. Tables are created only on request: `outlast db init`."""

    db: PostgresDatabase

    def create_schema(self) -> int:
        """Migrate the tables; return the version. An advisory lock allows one migration at a time."""
        with self.db.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            if self.db.schema is not None and not _fetch_value(
                connection, "SELECT to_regnamespace(%s)", self.db.schema
            ):
                connection.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(self.db.schema)))
            version = self._version(connection)
            if version == 0:
                connection.execute(self.db.sql["create_version"])
            elif version < LATEST:
                connection.execute(self.db.sql["delete_all_workers"])
            for number, script in scripts(self.db.schema).items():
                if number > version:
                    connection.execute(script)
                    connection.execute(self.db.sql["add_version"], {"version": number})
            return max(version, LATEST)

    def check_schema(self) -> None:
        """Check the version of the tables."""
        with self.db.connection() as connection:
            version = self._version(connection)
        if version != LATEST:
            raise SchemaError(version, LATEST)

    def close(self) -> None:
        """Close all connections."""
        self.db.close()

    def _version(self, connection: Connection) -> int:
        if not connection.execute(self.db.sql["has_version"]).fetchall()[0][0]:
            return 0
        return connection.execute(self.db.sql["schema_version"]).fetchall()[0][0] or 0


def _fetch_value(connection: Connection, query: str, value: str) -> Any:
    return connection.execute(query.encode(), (value,)).fetchall()[0][0]
