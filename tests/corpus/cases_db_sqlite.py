"""SQLite's errors through sqlite3 and through SQLAlchemy: locks, limits, damage, constraints and misuse."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """
    PRAGMA foreign_keys = ON;
    CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price INTEGER NOT NULL DEFAULT 1 CHECK (price > 0));
    CREATE TABLE part (item INTEGER NOT NULL REFERENCES item);
    CREATE TABLE strict_one (n INTEGER) STRICT;
    CREATE TRIGGER guard BEFORE DELETE ON item BEGIN SELECT RAISE(ABORT, 'items stay'); END;
    INSERT INTO item (id, name) VALUES (1, 'a');
"""


def database(stack: ExitStack, **settings: Any) -> tuple[Path, sqlite3.Connection]:
    """A file with the schema, and a connection that waits for nobody."""
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-sqlite-"))) / "a.db"
    connection = stack.enter_context(closing(sqlite3.connect(path, timeout=0, isolation_level=None, **settings)))
    connection.executescript(SCHEMA)
    return path, connection


def statement(text: str, world: World) -> BaseException:
    with ExitStack() as stack:
        _, connection = database(stack)
        return caught(connection.execute, text)


def other(stack: ExitStack, path: Path) -> sqlite3.Connection:
    return stack.enter_context(closing(sqlite3.connect(path, timeout=0, isolation_level=None)))


def locked(world: World) -> BaseException:
    with ExitStack() as stack:
        path, connection = database(stack)
        other(stack, path).execute("BEGIN IMMEDIATE")
        return caught(connection.execute, "BEGIN IMMEDIATE")


def snapshot_is_old(world: World) -> BaseException:
    with ExitStack() as stack:
        path, connection = database(stack)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM item").fetchall()
        other(stack, path).execute("UPDATE item SET price = 2")
        return caught(connection.execute, "UPDATE item SET price = 3")


def table_locked_in_shared_cache(world: World) -> BaseException:
    address = "file:shared_cache_case?mode=memory&cache=shared"
    with closing(sqlite3.connect(address, uri=True)) as first, closing(sqlite3.connect(address, uri=True)) as second:
        first.execute("CREATE TABLE t (a)")
        first.commit()
        first.execute("INSERT INTO t VALUES (1)")
        return caught(second.execute, "SELECT * FROM t")


def full(world: World) -> BaseException:
    with ExitStack() as stack:
        _, connection = database(stack)
        connection.execute("CREATE TABLE blobs (a)")
        connection.execute("PRAGMA max_page_count = 12")
        return caught(connection.execute, "INSERT INTO blobs VALUES (zeroblob(100000))")


def damaged(world: World) -> BaseException:
    with ExitStack() as stack:
        path, connection = database(stack)
        connection.close()
        content = path.read_bytes()
        path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
        return caught(other(stack, path).execute, "SELECT * FROM item WHERE name = 'a'")


def not_a_database(world: World) -> BaseException:
    with ExitStack() as stack:
        path, _ = database(stack)
        text = path.with_name("text.db")
        text.write_text("this is a text, not a database\n" * 200)
        return caught(other(stack, text).execute, "SELECT 1 FROM sqlite_master")


def read_only(world: World) -> BaseException:
    with ExitStack() as stack:
        path, _ = database(stack)
        reader = stack.enter_context(closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)))
        return caught(reader.execute, "INSERT INTO item (id) VALUES (2)")


def cannot_open(world: World) -> BaseException:
    return caught(sqlite3.connect, "/nowhere/at/all/a.db")


def interrupted(world: World) -> BaseException:
    with ExitStack() as stack:
        _, connection = database(stack, check_same_thread=False)
        stop = threading.Event()

        def interrupt() -> None:
            while not stop.wait(0.01):
                with suppress(sqlite3.ProgrammingError):
                    connection.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
        error = caught(connection.execute, endless)
        stop.set()
        thread.join()
        return error


def closed(world: World) -> BaseException:
    connection = sqlite3.connect(":memory:")
    connection.close()
    return caught(connection.execute, "SELECT 1")


def in_memory(call: Callable[[sqlite3.Connection], object], world: World) -> BaseException:
    with closing(sqlite3.connect(":memory:")) as connection:
        return caught(call, connection)


def from_another_thread(world: World) -> BaseException:
    errors: list[BaseException] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        thread = threading.Thread(target=lambda: errors.append(caught(connection.execute, "SELECT 1")))
        thread.start()
        thread.join()
    return errors[0]


def too_long(connection: sqlite3.Connection) -> object:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    return connection.execute("SELECT ?", ["x" * 5000])


def not_authorised(connection: sqlite3.Connection) -> object:
    connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
    return connection.execute("SELECT 1 FROM sqlite_master")


# Statement, code, category; none of these may succeed later.
STATEMENTS: dict[str, tuple[str, str, C]] = {
    "unique": ("INSERT INTO item (name) VALUES ('a')", "SQLITE_CONSTRAINT_UNIQUE", C.INTEGRITY),
    "primary key": ("INSERT INTO item (id) VALUES (1)", "SQLITE_CONSTRAINT_PRIMARYKEY", C.INTEGRITY),
    "not null": ("INSERT INTO part VALUES (NULL)", "SQLITE_CONSTRAINT_NOTNULL", C.INTEGRITY),
    "foreign key": ("INSERT INTO part VALUES (99)", "SQLITE_CONSTRAINT_FOREIGNKEY", C.INTEGRITY),
    "check": ("UPDATE item SET price = 0", "SQLITE_CONSTRAINT_CHECK", C.INTEGRITY),
    "raised by a trigger": ("DELETE FROM item", "SQLITE_CONSTRAINT_TRIGGER", C.INTEGRITY),
    "wrong type in a strict table": ("INSERT INTO strict_one VALUES ('x')", "", C.INTEGRITY),
    "datatype mismatch": ("INSERT INTO item (id) VALUES ('x')", "SQLITE_MISMATCH", C.INTEGRITY),
    "no such table": ("SELECT * FROM nowhere", "SQLITE_ERROR", C.CONFIGURATION),
    "no such column": ("SELECT nowhere FROM item", "SQLITE_ERROR", C.CONFIGURATION),
    "no such function": ("SELECT nowhere(1)", "SQLITE_ERROR", C.CONFIGURATION),
    "table exists already": ("CREATE TABLE item (a)", "SQLITE_ERROR", C.INVALID_PARAMETERS),
    "syntax error": ("SELEC 1", "SQLITE_ERROR", C.INVALID_PARAMETERS),
    "unknown character": ("SELECT #", "SQLITE_ERROR", C.INVALID_PARAMETERS),
    "incomplete input": ("SELECT (1", "SQLITE_ERROR", C.INVALID_PARAMETERS),
    "too few values": ("INSERT INTO item VALUES (1)", "SQLITE_ERROR", C.INVALID_PARAMETERS),
    "integer overflow": ("SELECT abs(-9223372036854775808)", "", C.DATA),
    "malformed JSON": ("SELECT json('{')", "", C.DATA),
}

# Code, category, whether to try again, how.
SITUATIONS: dict[str, tuple[str, C, bool, Callable[[World], BaseException]]] = {
    "locked": ("SQLITE_BUSY", C.DATABASE_BUSY, True, locked),
    "snapshot is old": ("SQLITE_BUSY_SNAPSHOT", C.DATABASE_BUSY, True, snapshot_is_old),
    "table locked": ("SQLITE_LOCKED_SHAREDCACHE", C.DATABASE_BUSY, True, table_locked_in_shared_cache),
    "disk full": ("SQLITE_FULL", C.SYSTEM, True, full),
    "damaged": ("SQLITE_CORRUPT", C.INTEGRITY, False, damaged),
    "not a database": ("SQLITE_NOTADB", C.INTEGRITY, False, not_a_database),
    "read-only": ("SQLITE_READONLY", C.CONFIGURATION, False, read_only),
    "cannot open": ("SQLITE_CANTOPEN", C.CONFIGURATION, False, cannot_open),
    "interrupted": ("SQLITE_INTERRUPT", C.UNKNOWN, False, interrupted),
    "too big": ("", C.DATA, False, partial(in_memory, too_long)),
    "not authorised": ("SQLITE_AUTH", C.AUTHENTICATION, False, partial(in_memory, not_authorised)),
    "closed": ("", C.INVALID_PARAMETERS, False, closed),
    "from another thread": ("", C.INVALID_PARAMETERS, False, from_another_thread),
    "too few bindings": ("", C.INVALID_PARAMETERS, False, partial(in_memory, lambda c: c.execute("SELECT ?, ?", [1]))),
    "unknown binding": ("", C.INVALID_PARAMETERS, False, partial(in_memory, lambda c: c.execute("SELECT :a", {}))),
    "unfit value": ("", C.INVALID_PARAMETERS, False, partial(in_memory, lambda c: c.execute("SELECT ?", [object()]))),
}


def alchemy(text: str, world: World) -> BaseException:
    import sqlalchemy as sa

    with ExitStack() as stack:
        path, _ = database(stack)
        engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool, connect_args={"timeout": 0})
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA foreign_keys = ON")
            return caught(connection.exec_driver_sql, text)


def alchemy_locked(world: World) -> BaseException:
    import sqlalchemy as sa

    with ExitStack() as stack:
        path, first = database(stack)
        first.execute("BEGIN EXCLUSIVE")
        engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool, connect_args={"timeout": 0})
        with engine.connect() as connection:
            start = time.monotonic()
            error = caught(connection.exec_driver_sql, "SELECT * FROM item")
            assert time.monotonic() - start < 5
            return error


def alchemy_cannot_open(world: World) -> BaseException:
    import sqlalchemy as sa

    return caught(sa.create_engine("sqlite:////nowhere/at/all/a.db").connect)


CASES: list[Case] = [
    *(
        Case(f"{client}/{name}", partial(run, text), category, False, code=code or None, origin=Origin.DB)
        for client, run in (("sqlite3", statement), ("sqlalchemy-sqlite", alchemy))
        for name, (text, code, category) in STATEMENTS.items()
    ),
    *(
        Case(f"sqlite3/{name}", make, category, retryable, code=code or None, origin=Origin.DB)
        for name, (code, category, retryable, make) in SITUATIONS.items()
    ),
    Case("sqlalchemy-sqlite/locked", alchemy_locked, C.DATABASE_BUSY, True, code="SQLITE_BUSY", origin=Origin.DB),
    Case("sqlalchemy-sqlite/cannot open", alchemy_cannot_open, C.CONFIGURATION, False, origin=Origin.DB),
]
