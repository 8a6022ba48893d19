"""The mark of a SQLite file that is moved to PostgreSQL. From the start of the move nobody can write to the file.

Triggers in the file reject writes by programs that already have it open, by older versions and by plain SQL, also after
a crash. Tables of other programs in the file are not affected.
"""

from datetime import datetime
from sqlite3 import Connection
from typing import NamedTuple

from outlast.errors import ConfigError
from outlast.sql_files import created_tables, load_migrations
from outlast.stores.sqlite.connection import now_ms, read_row

OWN_TABLES = tuple(created_tables(load_migrations(__package__)))
"""All tables of Outlast in a file, except schema_version."""
_MARK_TABLE = "outlast_move"
_VERBS = ("INSERT", "UPDATE", "DELETE")


class MoveMark(NamedTuple):
    """What a file records about its move.

    Attributes:
        id: Id of the move.
        target: Display name of the target.
        receipt: Identifies the target; None before the target has started to receive, empty while the move is
            cancelled.
        begun_at: When the move started.
        ended_at: When it ended; None while it runs.
    """

    id: str
    target: str
    receipt: str | None
    begun_at: datetime
    ended_at: datetime | None


def read_mark(connection: Connection) -> MoveMark | None:
    """Return the mark of a file; None if it is not being moved."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_MARK_TABLE,)).fetchone() is None:
        return None
    row = connection.execute("SELECT id, target, receipt, begun_at, ended_at FROM outlast_move").fetchone()
    return read_row(MoveMark, row)


def refuse_moved(connection: Connection) -> None:
    """Check that a file has not been moved.

    Raises:
        ConfigError: If it was moved or is being moved.
    """
    mark = read_mark(connection)
    if mark is not None:
        raise ConfigError(_move_message(mark))


def freeze_file(connection: Connection, move_id: str, target: str) -> MoveMark:
    """Mark the file and reject all writes to its tables, within the caller's transaction; return the mark."""
    connection.execute(
        "CREATE TABLE outlast_move (id TEXT NOT NULL, target TEXT NOT NULL, receipt TEXT, begun_at INTEGER NOT NULL, "
        "ended_at INTEGER) STRICT"
    )
    connection.execute("INSERT INTO outlast_move VALUES (?, ?, NULL, ?, NULL)", (move_id, target, now_ms()))
    return _create_triggers(connection)


def set_target(connection: Connection, receipt: str, target: str) -> None:
    """Record which target receives the file; within the caller's transaction."""
    connection.execute("UPDATE outlast_move SET receipt = ?, target = ?", (receipt, target))
    _create_triggers(connection)


def mark_ended(connection: Connection) -> None:
    """Record that the move has ended; within the caller's transaction."""
    connection.execute("UPDATE outlast_move SET ended_at = ?", (now_ms(),))
    _create_triggers(connection)


def unfreeze_file(connection: Connection) -> None:
    """Remove the mark, so that the file can be used as before the move; within the caller's transaction."""
    _drop_triggers(connection)
    connection.execute("DROP TABLE outlast_move")


def _create_triggers(connection: Connection) -> MoveMark:
    """Reject every write with a message about the move; return its mark."""
    mark = read_mark(connection)
    assert mark is not None  # noqa: S101  # for the type checker
    message = _move_message(mark).replace("'", "''")
    _drop_triggers(connection)
    for table in (*OWN_TABLES, "schema_version"):
        for verb in _VERBS:
            name = f"{_MARK_TABLE}_{table}_{verb}"
            connection.execute(
                f"CREATE TRIGGER {name} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
    return mark


def _drop_triggers(connection: Connection) -> None:
    """Drop all triggers, including those of another version of Outlast, which has other tables."""
    names = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB ?"
    for (name,) in connection.execute(names, (f"{_MARK_TABLE}_*",)).fetchall():
        connection.execute(f"DROP TRIGGER {name}")


def _move_message(mark: MoveMark) -> str:
    if mark.ended_at is not None:
        moved_at = _format_minute(mark.ended_at)
        return f"this file was moved to PostgreSQL ({mark.target}) on {moved_at}; use that URL instead"
    return (
        f"this file is being moved to PostgreSQL ({mark.target}) since {_format_minute(mark.begun_at)}; "
        "wait for outlast move to end, run it again if it was interrupted, or cancel it with outlast move --cancel"
    )


def _format_minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
