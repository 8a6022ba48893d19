"""A file whose rows went to PostgreSQL: from the begin of the move on nobody writes to it, and it says why.

Triggers keep everybody out: programs that have the file open since yesterday, those of older versions, and plain SQL.
They are in the file, so they are there after a crash too. Other people's tables in it are left alone.
"""

import re
import sqlite3
from datetime import datetime
from typing import NamedTuple

from outlast.errors import ConfigError
from outlast.sql_files import load_migrations
from outlast.stores.sqlite.connection import now_ms, to_datetime

OWN_TABLES = tuple(
    name
    for script in load_migrations(__package__).values()
    for name in re.findall(r"^CREATE TABLE (\w+)", script, re.MULTILINE)
)
"""All tables of Outlast in a file, but that of its versions."""
_MARK_TABLE = "outlast_move"
_VERBS = ("INSERT", "UPDATE", "DELETE")


class MoveMark(NamedTuple):
    """What a file knows of its move.

    Attributes:
        id: Of the move.
        target: Where to, for people.
        receipt: By which the target is known again; None until it has begun its part, nothing once the move is being
            given up.
        begun_at: When.
        ended_at: When it was over; None while it is not.
    """

    id: str
    target: str
    receipt: str | None
    begun_at: datetime
    ended_at: datetime | None


def read_mark(connection: sqlite3.Connection) -> MoveMark | None:
    """Return what a file knows of its move; None where there is none."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_MARK_TABLE,)).fetchone() is None:
        return None
    row = connection.execute("SELECT id, target, receipt, begun_at, ended_at FROM outlast_move").fetchone()
    return MoveMark(*row[:3], *map(to_datetime, row[3:]))


def refuse_moved(connection: sqlite3.Connection) -> None:
    """See that a file was not moved.

    Raises:
        ConfigError: If it was, or is being moved.
    """
    mark = read_mark(connection)
    if mark is not None:
        raise ConfigError(_move_message(mark))


def freeze_file(connection: sqlite3.Connection, move_id: str, target: str) -> None:
    """Mark the file and keep everybody from writing to its tables; within the caller's transaction."""
    connection.execute(
        "CREATE TABLE outlast_move (id TEXT NOT NULL, target TEXT NOT NULL, receipt TEXT, begun_at INTEGER NOT NULL, "
        "ended_at INTEGER) STRICT"
    )
    connection.execute("INSERT INTO outlast_move VALUES (?, ?, NULL, ?, NULL)", (move_id, target, now_ms()))
    _create_triggers(connection)


def set_target(connection: sqlite3.Connection, receipt: str, target: str) -> None:
    """Write down which target has begun to receive the file; within the caller's transaction."""
    connection.execute("UPDATE outlast_move SET receipt = ?, target = ?", (receipt, target))
    _create_triggers(connection)


def mark_ended(connection: sqlite3.Connection) -> None:
    """Write down that the move is over; within the caller's transaction."""
    connection.execute("UPDATE outlast_move SET ended_at = ?", (now_ms(),))
    _create_triggers(connection)


def unfreeze_file(connection: sqlite3.Connection) -> None:
    """Have the file used again, as if nobody had begun to move it; within the caller's transaction."""
    _drop_triggers(connection)
    connection.execute("DROP TABLE outlast_move")


def _create_triggers(connection: sqlite3.Connection) -> None:
    """Have every attempt to write say what the file knows of its move."""
    mark = read_mark(connection)
    assert mark is not None  # noqa: S101  # for the type checker
    said = _move_message(mark).replace("'", "''")
    _drop_triggers(connection)
    for table in (*OWN_TABLES, "schema_version"):
        for verb in _VERBS:
            name = f"{_MARK_TABLE}_{table}_{verb}"
            connection.execute(
                f"CREATE TRIGGER {name} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{said}'); END"
            )


def _drop_triggers(connection: sqlite3.Connection) -> None:
    """Drop the triggers, also those of another version of Outlast, which has other tables."""
    names = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB ?"
    for (name,) in connection.execute(names, (f"{_MARK_TABLE}_*",)).fetchall():
        connection.execute(f"DROP TRIGGER {name}")


def _move_message(mark: MoveMark) -> str:
    if mark.ended_at is not None:
        moved_at = _format_minute(mark.ended_at)
        return f"this file was moved to PostgreSQL ({mark.target}) on {moved_at}; use that URL instead"
    return (
        f"this file is being moved to PostgreSQL ({mark.target}) since {_format_minute(mark.begun_at)}; "
        "let outlast move end, "
        "run it again if it was interrupted, or give it up by outlast move --cancel"
    )


def _format_minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
