"""The tables of a SQLite file and their version."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from sqlite3 import Connection

from outlast.errors import ConfigError, SchemaError
from outlast.sql_files import created_tables, load_migrations
from outlast.stores.rules import missing_tables_error
from outlast.stores.sqlite.connection import SqliteDatabase, now_ms, write_transaction
from outlast.stores.sqlite.move_mark import OWN_TABLES, refuse_moved

LATEST = max(load_migrations(__package__))


class SqliteSchema:
    """Implements `Schema`. A file creates and migrates its tables when it is opened."""

    db: SqliteDatabase

    def create_schema(self) -> int:
        """Migrate the tables, which opening the file has done; return the version."""
        return self.db.read(schema_version)

    def check_schema(self) -> int:
        """Check the version of the tables, and that none is missing; return the version."""
        found = self.db.read(schema_version)
        if found != LATEST:
            raise SchemaError(found, LATEST)
        missing = set(OWN_TABLES) - self.db.read(_table_names)
        if missing:
            raise missing_tables_error(sorted(missing), LATEST)
        return LATEST


def prepare_schema(
    connection: Connection, begin: Callable[[Connection], AbstractContextManager[object]] = write_transaction
) -> None:
    """Create or migrate the tables. The write lock allows one migration at a time.

    Args:
        connection: To the file.
        begin: Begins the transaction.

    Raises:
        SchemaError: If the tables are newer than this version of Outlast.
        ConfigError: If the file was moved to another database.
    """
    found = schema_version(connection)
    refuse_moved(connection)
    if found > LATEST:
        raise SchemaError(found, LATEST)
    if found < LATEST:
        with begin(connection):
            migrate(connection)


def schema_version(connection: Connection | sqlite3.Cursor) -> int:
    """Return the version of the tables; 0 if there are none.

    Raises:
        ConfigError: If another program has created the table schema_version.
    """
    known = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'schema_version'").fetchone()
    if known is None:
        return 0
    if "applied_at" not in known[0]:
        raise ConfigError("this file has a table schema_version that Outlast did not create; use another file")
    return connection.execute("SELECT max(version) FROM schema_version").fetchone()[0] or 0


def migrate(connection: Connection | sqlite3.Cursor) -> None:
    """Apply the missing migrations, all in one transaction."""
    version = schema_version(connection)
    missing = {number: script for number, script in load_migrations(__package__).items() if number > version}
    _refuse_foreign_tables(connection, created_tables(missing))
    if version == 0:
        connection.execute(
            "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT"
        )
    elif missing:  # workers of the older version lose their leases and cannot register again
        connection.execute("DELETE FROM workers")
    for number, script in missing.items():
        for statement in _split_statements(script):
            connection.execute(statement)
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", (number, now_ms()))


def _table_names(connection: Connection | sqlite3.Cursor) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}


def _refuse_foreign_tables(connection: Connection | sqlite3.Cursor, ours: list[str]) -> None:
    """Check that another program does not have one of our tables in the file."""
    foreign = sorted(_table_names(connection).intersection(ours))
    if foreign:
        raise ConfigError(
            f"this file has a table {foreign[0]} that Outlast did not create; rename it, or use another file"
        )


def _split_statements(script: str) -> list[str]:
    """Split a script into statements; `executescript` would commit first."""
    statements, statement = [], ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            statements.append(statement)
            statement = ""
    return statements
