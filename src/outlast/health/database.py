"""Whether the database answers: a connection, a store, or an app that has one."""

import inspect
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from outlast.errors import ConfigError
from outlast.health.probe import Ask

__all__ = ["DatabaseProtocol", "StoreProtocol", "database_check"]

_OPEN_LIMIT = 1.0  # seconds; a lock that somebody holds is no reason to wait
_ON_DISK = "SELECT 1 FROM sqlite_master LIMIT 1"  # SELECT 1 alone would never look at the file


class DatabaseProtocol(Protocol):
    """A connection, as sqlite3 and psycopg have them."""

    def execute(self, query: str, /) -> object:
        """Run a query."""


class StoreProtocol(Protocol):
    """What a store of Outlast is asked."""

    def now(self) -> datetime:
        """Return the time by the store's clock."""

    def next_due(self, queues: Sequence[str], /) -> float | None:
        """Return the seconds until a task of these queues can be claimed."""


def database_check(db: Any) -> Ask:
    """Return the check for a database.

    Args:
        db: A connection with ``execute``, best one that nobody else uses; a store; or an app, whose store is asked.

    Raises:
        ConfigError: If it is none of these, or its ``execute`` has to be awaited.
    """
    store = getattr(db, "store", db)
    if callable(getattr(store, "next_due", None)) and callable(getattr(store, "now", None)):
        return _StoreAnswers(store)
    execute = getattr(db, "execute", None)
    kind = f"{type(db).__module__}.{type(db).__qualname__}"
    if not callable(execute):
        message = f"db is {kind}; give an App, a store, or a connection that has execute(query)"
        raise ConfigError(message)
    if inspect.iscoroutinefunction(execute):
        message = f"db is {kind}, whose execute has to be awaited; give a connection that blocks, an App or a store"
        raise ConfigError(message)
    return _SqliteAnswers(db) if isinstance(db, sqlite3.Connection) else _ConnectionAnswers(db)


class _StoreAnswers:
    """A store: its clock, which is the server's where there is a server, and a look into the table of tasks."""

    def __init__(self, store: StoreProtocol) -> None:
        self._store = store

    def __call__(self) -> bool:
        self._store.now()
        self._store.next_due(("default",))  # the clock of a file is the machine's and tells nothing of the file
        return True


class _ConnectionAnswers:
    """A connection of psycopg, or of anything like it."""

    def __init__(self, db: DatabaseProtocol) -> None:
        self._db: Any = db

    def __call__(self) -> bool:
        idle = self._is_idle()
        self._db.execute("SELECT 1")
        if idle and not self._is_idle():
            # The question began a transaction, which would stay open for ever and hold up VACUUM. It is committed:
            # should a statement of another thread have slipped in, a rollback would lose it.
            self._db.commit()
        return True

    def _is_idle(self) -> bool:
        status = getattr(getattr(self._db, "info", None), "transaction_status", None)
        return getattr(status, "name", "") == "IDLE"


class _SqliteAnswers:
    """A connection of sqlite3. Most belong to the thread that made them; then the file is asked by another one."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._file = ""
        with suppress(sqlite3.Error):
            self._file = next((row[2] for row in _asked(db, "PRAGMA database_list") if row[1] == "main"), "")

    def __call__(self) -> bool:
        _ = self._db.total_changes  # raises when it is closed, and may be asked from any thread
        try:
            _asked(self._db, _ON_DISK)
        except sqlite3.ProgrammingError as error:
            if "thread" not in str(error):
                raise
            if self._file:
                self._ask_the_file()
        return True

    def _ask_the_file(self) -> None:
        address = f"{Path(self._file).as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_OPEN_LIMIT)) as another:
            another.execute(_ON_DISK).fetchone()


def _asked(db: sqlite3.Connection, query: str) -> list[Any]:
    """Return plain rows, whatever the connection makes of rows for its owner."""
    cursor = db.cursor()
    cursor.row_factory = None
    return cursor.execute(query).fetchall()
