"""One SQLite file as a process uses it: a connection that writes, one that reads, and commits that are shared.

Committing is what costs: the disk has to confirm. Whoever holds the lock commits for all who wait behind it, and every
caller returns only after the COMMIT that contains its work.
"""

import os
import random
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from outlast import clock
from outlast.errors import ConfigError
from outlast.forks import around_fork
from outlast.ports.store import seconds_left
from outlast.stores.filters import text_matches

# Times as this store keeps them: UTC milliseconds since the epoch.

_MAX_TIME_MS = 253_402_300_799_000  # the end of the year 9999


def now_ms() -> int:
    """Return the time; all processes that share the file share the machine's clock."""
    return round(clock.now() * 1000)


def milliseconds(seconds: float) -> int:
    """Return seconds in the store's unit, rounded up: nothing is ever early."""
    return -int(-seconds * 1000 // 1)


def to_datetime(stored: int | None) -> datetime | None:
    """Return a stored time as a datetime; one that no datetime can hold, as the nearest that can."""
    return None if stored is None else datetime.fromtimestamp(min(max(stored, 0), _MAX_TIME_MS) / 1000, UTC)


# Work within a transaction that is the caller's own.

_BY_ISOLATION_LEVEL = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, from Python 3.12 on


@contextmanager
def caller_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    """Have all that is done in the block stand in the caller's transaction, or none of it; nothing is committed.

    Where the caller's connection commits by itself, the block is a transaction of its own.

    Yields:
        A cursor whose rows are tuples, whatever the caller has made of rows.
    """
    cursor = connection.cursor()
    cursor.row_factory = None
    begins_itself = (
        connection.isolation_level is not None
        and getattr(connection, "autocommit", _BY_ISOLATION_LEVEL) == _BY_ISOLATION_LEVEL
    )
    if begins_itself and not connection.in_transaction:
        cursor.execute("BEGIN")  # by hand: Python begins none for CREATE TABLE
        try:
            yield cursor
        except BaseException:
            connection.rollback()
            raise
        return
    cursor.execute("SAVEPOINT outlast")
    try:
        yield cursor
    except BaseException:
        if connection.in_transaction:  # a full disk ends it by itself
            cursor.execute("ROLLBACK TO outlast")
            cursor.execute("RELEASE outlast")
        raise
    cursor.execute("RELEASE outlast")


T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

BUSY_TIMEOUT = 30.0
"""Seconds for which another process may hold the file before it is an error."""
_MIN_VERSION = (3, 38, 0)  # RETURNING, STRICT, ->>
_abandoned: list[sqlite3.Connection] = []  # connections of a parent process: closing them here could drop its locks
_databases: "weakref.WeakSet[SqliteDatabase]" = weakref.WeakSet()
_forking: "list[SqliteDatabase]" = []


class _Ticket:
    """Work that waits for a commit."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None


class SqliteDatabase:
    """A SQLite file.

    Args:
        path: Of the file, or ``:memory:`` is refused: two connections would see two databases.
        prepare: Called with every new connection, to see to the tables.
        synchronous: ``FULL`` survives a power cut, ``NORMAL`` may lose the last moments to one.
    """

    def __init__(
        self, path: str | Path, prepare: Callable[[sqlite3.Connection], object], synchronous: str = "FULL"
    ) -> None:
        """Check what can be checked without opening the file."""
        if sqlite3.sqlite_version_info < _MIN_VERSION:
            message = f"SQLite {sqlite3.sqlite_version} is too old; 3.38 or later is needed"
            raise ConfigError(message)
        if synchronous not in {"FULL", "NORMAL"}:
            message = f"synchronous is {synchronous!r}; choose FULL or NORMAL"
            raise ConfigError(message)
        self.path = Path(path).absolute()
        self._synchronous = synchronous
        self._prepare = prepare
        self._forget()
        _databases.add(self)

    def _forget(self) -> None:
        """Begin without connections: at first, and in a child process, where the parent's must not be used."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._waiting: deque[_Ticket] = deque()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            _abandoned.extend(each for each in (self._writer, self._reader) if each is not None)
            self._forget()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work in a transaction, perhaps together with that of other threads, and return after its COMMIT.

        The work must be repeatable: when the work of another thread spoils the transaction, it is run once more.
        """
        self._check_process()
        ticket = _Ticket(work)
        self._waiting.append(ticket)
        with self._lock:
            if not ticket.done:
                self._commit_waiting(ticket)
        if ticket.error is not None:
            raise ticket.error
        result: T = ticket.result
        return result

    def insert(self, sql: str, values: tuple[Any, ...]) -> int:
        """Insert a row in a transaction of its own, or of those who wait; return its number."""
        if self._pid != os.getpid():
            self._check_process()
        lock = self._lock
        if not self._waiting and lock.acquire(False):  # noqa: FBT003  # by name it takes longer
            try:
                if self._writer is not None:  # a statement outside of a transaction is one by itself
                    return self._writer.execute(sql, values).lastrowid or 0
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
            finally:
                lock.release()
        return self.write(partial(_insert_row, sql=sql, values=values))

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work that only reads; it sees what is committed and waits for no writer."""
        self._check_process()
        with self._read_lock:
            if self._reader is None:
                self._reader = self._open()
            return work(self._reader)

    def close(self) -> None:
        """Close the file."""
        self._check_process()
        with self._lock, self._read_lock:
            self._close()

    def _close(self) -> None:
        for each in (self._writer, self._reader):
            if each is not None:
                each.close()
        self._writer = self._reader = None

    def _open(self) -> sqlite3.Connection:
        if not self.path.parent.is_dir():
            message = f"the folder of the database does not exist: {self.path.parent}"
            raise ConfigError(message)
        try:
            connection = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except sqlite3.OperationalError as error:
            error.add_note(f"the database is {self.path}")
            raise
        try:
            connection.create_function("holds", 3, text_matches, deterministic=True)
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: sqlite3.Connection) -> None:
        """Set it up. While others do so to a new file, SQLite says at once that it is locked, and does not wait."""
        end = time.monotonic() + BUSY_TIMEOUT
        while True:
            try:
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                connection.execute("PRAGMA journal_mode = WAL")
                self._prepare(connection)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= end:
                    raise
                time.sleep(0.005)
            else:
                return

    def begin_fork(self) -> None:
        """Close the file for the moment of a fork, when nobody uses it."""
        self._lock.acquire()
        self._read_lock.acquire()
        self._close()

    def end_fork(self) -> None:
        """Let it be used again, in the parent; a child begins anew."""
        self._read_lock.release()
        self._lock.release()

    def _commit_waiting(self, own: _Ticket) -> None:
        """Commit for everybody who waits, the caller among them."""
        tickets: list[_Ticket] = []
        while self._waiting:
            tickets.append(self._waiting.popleft())
        try:
            if self._writer is None:
                self._writer = self._open()
                self._writer.execute("PRAGMA busy_timeout = 0")  # `_begin` waits instead
            try:
                self._transact(self._writer, tickets)
            except Exception:
                if len(tickets) == 1:
                    raise
                for ticket in tickets:  # one of them spoilt it for all: each on its own, then
                    self._alone(self._writer, ticket)
        except Exception as error:  # noqa: BLE001  # it is raised in the threads whose work it is
            for ticket in tickets:
                if not ticket.done:
                    ticket.error, ticket.done = error, True
        finally:  # after Ctrl-C in this thread: the others commit for themselves
            self._waiting.extendleft(ticket for ticket in reversed(tickets) if not ticket.done and ticket is not own)

    def _alone(self, connection: sqlite3.Connection, ticket: _Ticket) -> None:
        try:
            self._transact(connection, [ticket])
        except Exception as error:  # noqa: BLE001  # it is raised in the thread whose work it is
            ticket.error, ticket.done = error, True

    @staticmethod
    def _transact(connection: sqlite3.Connection, tickets: list[_Ticket]) -> None:
        _begin_write(connection)
        committing = False
        try:
            for ticket in tickets:
                ticket.result = ticket.work(connection)
            committing = True
            connection.execute("COMMIT")
        except sqlite3.Error:
            committing = False  # a full disk ends the transaction by itself: that it is over does not say it is kept
            raise
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            elif committing:  # also when Ctrl-C comes right after it
                for ticket in tickets:
                    ticket.done = True


def _insert_row(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> int:
    return connection.execute(sql, values).lastrowid or 0


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _begin_write(connection: sqlite3.Connection) -> None:
    """Begin to write, waiting for other processes if need be.

    SQLite itself would look again after longer and longer pauses, and one busy process would shut the others out for
    seconds. Short pauses of random length give everybody a turn.
    """
    limit = time.monotonic() + seconds_left(BUSY_TIMEOUT)
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > limit:
                raise
            time.sleep(random.uniform(0.0005, 0.005))  # noqa: S311  # spreads waits, guards no secret
        else:
            return


def _before_fork() -> None:
    """Close all files: SQLite notes its locks in memory, and a child would have that memory without the locks."""
    _forking.extend(_databases)
    for database in _forking:
        database.begin_fork()


def _after_fork_in_parent() -> None:
    for database in _forking:
        database.end_fork()
    _forking.clear()


around_fork(before=_before_fork, in_parent=_after_fork_in_parent, in_child=_forking.clear)
