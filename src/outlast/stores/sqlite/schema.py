"""The tables of a SQLite file, and their versions."""

import re
import sqlite3

from outlast.errors import ConfigError, SchemaError
from outlast.sql_files import load_migrations
from outlast.stores.sqlite.connection import SqliteDatabase, now_ms
from outlast.stores.sqlite.move_mark import refuse_moved

LATEST = max(load_migrations(__package__))
_CREATE_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)


class SqliteSchema:
    """The duty `Schema`. A file creates its tables, and brings them up to date, when it is opened."""

    db: SqliteDatabase

    def create_schema(self) -> int:
        """Bring the tables up to date."""
        return self.db.read(schema_version)

    def check_schema(self) -> None:
        """See that the tables fit."""
        found = self.db.read(schema_version)
        if found != LATEST:
            raise SchemaError(found, LATEST)

    def close(self) -> None:
        """Close the file."""
        self.db.close()


def prepare_schema(connection: sqlite3.Connection) -> None:
    """See that the tables are there and fit; the write lock keeps two migrations apart.

    Raises:
        SchemaError: If they are newer than this version of Outlast.
        ConfigError: If they were moved to another database.
    """
    found = schema_version(connection)
    refuse_moved(connection)
    if found > LATEST:
        raise SchemaError(found, LATEST)
    if found < LATEST:
        connection.execute("BEGIN IMMEDIATE")
        try:
            migrate(connection)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def schema_version(connection: sqlite3.Connection | sqlite3.Cursor) -> int:
    """Return the version of the tables; 0 where there are none.

    Raises:
        ConfigError: If the table of versions is somebody else's.
    """
    known = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'schema_version'").fetchone()
    if known is None:
        return 0
    if "applied_at" not in known[0]:
        message = "this file has a table schema_version that Outlast did not make; use another file for its tasks"
        raise ConfigError(message)
    return connection.execute("SELECT max(version) FROM schema_version").fetchone()[0] or 0


def migrate(connection: sqlite3.Connection | sqlite3.Cursor) -> None:
    """Apply what is missing; within one transaction, so half a migration is never seen."""
    version = schema_version(connection)
    missing = {number: script for number, script in load_migrations(__package__).items() if number > version}
    _refuse_foreign_tables(connection, "\n".join(missing.values()))
    if version == 0:
        connection.execute(
            "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT"
        )
    elif missing:  # workers of the older version lose their leases, and get no other
        connection.execute("DELETE FROM workers")
    for number, script in missing.items():
        for statement in _split_statements(script):
            connection.execute(statement)
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", (number, now_ms()))


def _refuse_foreign_tables(connection: sqlite3.Connection | sqlite3.Cursor, script: str) -> None:
    """See that nobody else's tables stand where a script makes ours."""
    ours = set(_CREATE_TABLE.findall(script))
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    strangers = sorted(name for (name,) in found if name in ours)
    if strangers:
        message = f"this file has a table {strangers[0]} that Outlast did not make; rename it, or use another file"
        raise ConfigError(message)


def _split_statements(script: str) -> list[str]:
    """Split a script; `executescript` would commit first."""
    statements, begun = [], ""
    for line in script.splitlines():
        begun += line + "\n"
        if sqlite3.complete_statement(begun):
            statements.append(begun)
            begun = ""
    return statements
