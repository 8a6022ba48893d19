"""One SQLite file in a process: a connection that writes, one that reads, and group commits.

A commit is expensive because the disk has to confirm it. The thread that holds the lock commits the work of all waiting
threads, and each call returns only after the COMMIT that contains its work.
"""

import json
import os
import random
import sqlite3
import threading
import time
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from outlast import clock
from outlast.errors import ConfigError
from outlast.forks import around_fork
from outlast.ports.store import seconds_left
from outlast.private_files import create_file
from outlast.sql_files import load_statements
from outlast.stores.filters import text_matches
from outlast.stores.row_reader import RowReader
from outlast.stores.shared_methods import R, Statements, Values

SQL = load_statements(__package__)
dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_TIME_MS = 253_402_300_799_000  # the end of the year 9999


def now_ms() -> int:
    """Return the current time in milliseconds since the Unix epoch. All processes share the clock of the machine."""
    return round(clock.now() * 1000)


def milliseconds(seconds: float) -> int:
    """Return seconds as milliseconds, rounded up so that nothing happens early."""
    return -int(-seconds * 1000 // 1)


def ms_from_now(seconds: float) -> int:
    """Return a time in the future, as it is stored."""
    return now_ms() + milliseconds(seconds)


def ms_ago(seconds: float) -> int:
    """Return a time in the past, as it is stored."""
    return now_ms() - milliseconds(seconds)


def to_datetime(stored: int) -> datetime:
    """Return stored milliseconds as a datetime, clamped to the range that a datetime can hold."""
    return datetime.fromtimestamp(min(max(stored, 0), _MAX_TIME_MS) / 1000, UTC)


read_row = RowReader(to_datetime)


def bind(values: Values) -> dict[str, Any]:
    """Return parameters as SQLite stores them, and ``now``.

    Times and durations are milliseconds, rounded up so that nothing happens early. Lists and dicts are JSON text.
    """
    return {"now": now_ms()} | {name: _stored(value) for name, value in (values or {}).items()}


def _stored(value: Any) -> Any:
    match value:
        case datetime():
            return -((_EPOCH - value) // _MILLISECOND)
        case timedelta():
            return -(-value // _MILLISECOND)
        case list() | tuple() | dict():
            return dumps(value)
        case _:
            return value


def execute(connection: Connection | sqlite3.Cursor, name: str, values: Any = ()) -> sqlite3.Cursor:
    """Run a statement by name, in the open transaction if there is one."""
    return connection.execute(SQL[name], values)


def find(connection: Connection, row_type: type[R], name: str, values: Any = ()) -> R | None:
    """Run a statement by name; return its first row, or None."""
    row = execute(connection, name, values).fetchone()
    return None if row is None else read_row(row_type, row)


_BY_ISOLATION_LEVEL = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, from Python 3.12 on


def tuple_cursor(connection: Connection) -> sqlite3.Cursor:
    """Return a cursor whose rows are tuples, whatever row factory the connection has."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


@contextmanager
def write_transaction(connection: Connection) -> Iterator[sqlite3.Cursor]:
    """Run a block in a transaction that has the write lock from its start."""
    cursor = tuple_cursor(connection)
    cursor.execute("BEGIN IMMEDIATE")
    try:
        yield cursor
        cursor.execute("COMMIT")
    finally:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")


@contextmanager
def caller_transaction(connection: Connection) -> Iterator[sqlite3.Cursor]:
    """Run a block in the caller's transaction, all or nothing; nothing is committed.

    If the caller's connection is in autocommit mode, the block is a transaction of its own.

    Yields:
        A cursor whose rows are tuples, whatever row factory the caller uses.
    """
    cursor = tuple_cursor(connection)
    begins_implicitly = (
        connection.isolation_level is not None
        and getattr(connection, "autocommit", _BY_ISOLATION_LEVEL) == _BY_ISOLATION_LEVEL
    )
    if begins_implicitly and not connection.in_transaction:
        cursor.execute("BEGIN")  # Python starts no transaction for CREATE TABLE
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
        if connection.in_transaction:  # SQLite rolls back by itself when the disk is full
            cursor.execute("ROLLBACK TO outlast")
            cursor.execute("RELEASE outlast")
        raise
    cursor.execute("RELEASE outlast")


T = TypeVar("T")
Work = Callable[[Connection], Any]

BUSY_TIMEOUT = 30.0
"""Seconds to wait for another process that holds the file."""
_MIN_VERSION = (3, 38, 0)  # RETURNING, STRICT, ->>
_abandoned: list[Connection] = []  # connections of a parent process; closing them here could release its locks
_databases: "weakref.WeakSet[SqliteDatabase]" = weakref.WeakSet()
_forking: "list[SqliteDatabase]" = []


@dataclass(slots=True, eq=False)
class _Ticket:
    """Work that waits for a commit."""

    work: Work
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class SqliteStatements(Statements):
    """Runs statements by name."""

    read_row = read_row

    @abstractmethod
    def read(self, work: Callable[[Any], T]) -> T:
        """Run work that only reads."""

    @abstractmethod
    def write(self, work: Callable[[Any], T]) -> T:
        """Run work in a transaction."""

    def fetch(self, name: str, values: Values = None) -> list[Any]:
        """Run a statement that only reads; return its rows."""
        return self.read(lambda connection: execute(connection, name, bind(values)).fetchall())

    def change(self, name: str, values: Values = None) -> int:
        """Run a statement that writes; return the number of changed rows."""
        changed: int = self.write(lambda connection: execute(connection, name, bind(values)).rowcount)
        return changed

    def fetch_changed(self, name: str, values: Values = None) -> list[Any]:
        """Run a statement that writes; return its rows."""
        return self.write(lambda connection: execute(connection, name, bind(values)).fetchall())


class SqliteDatabase(SqliteStatements):
    """A SQLite file.

    Args:
        path: Path of the file.
        prepare: Called with every new connection, to create or check the tables.
        synchronous: ``FULL`` survives a power cut; ``NORMAL`` may lose the last transactions.
    """

    syncs_to_disk = True
    """False if a power cut may corrupt the file, for temporary files."""

    def __init__(self, path: str | Path, prepare: Callable[[Connection], object], synchronous: str = "FULL") -> None:
        if sqlite3.sqlite_version_info < _MIN_VERSION:
            raise ConfigError(f"SQLite {sqlite3.sqlite_version} is too old; use 3.38 or later")
        if synchronous not in {"FULL", "NORMAL"}:
            raise ConfigError(f"synchronous is {synchronous!r}; it must be FULL or NORMAL")
        self.path = Path(path).absolute()
        self._synchronous = synchronous
        self._prepare = prepare
        self._reset()
        _databases.add(self)

    def _reset(self) -> None:
        """Start without connections: initially, and in a child process, which must not use those of its parent."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._waiting: deque[_Ticket] = deque()
        self._writer: Connection | None = None
        self._reader: Connection | None = None

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            _abandoned.extend(each for each in (self._writer, self._reader) if each is not None)
            self._reset()

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run work in a transaction, possibly together with work of other threads; return after its COMMIT.

        The work must be repeatable: if the work of another thread breaks the transaction, it runs again.
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

    def insert(self, sql: str, values: tuple[Any, ...] | dict[str, Any]) -> int:
        """Insert a row, in its own transaction or together with waiting work; return its id."""
        if self._pid != os.getpid():
            self._check_process()
        lock = self._lock
        if not self._waiting and lock.acquire(False):  # noqa: FBT003  # a keyword argument is slower
            try:
                if self._writer is not None:  # a statement outside of a transaction commits itself
                    return self._writer.execute(sql, values).lastrowid or 0
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
            finally:
                lock.release()
        return self.write(lambda connection: connection.execute(sql, values).lastrowid or 0)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that only reads. It sees committed data and does not wait for writers."""
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

    def close_unless_busy(self) -> None:
        """Close the file if no thread uses it and no fork is under way; never waits, so a finalizer can call it."""
        if self._lock.acquire(blocking=False):
            try:
                if self._read_lock.acquire(blocking=False):
                    try:
                        self._close()
                    finally:
                        self._read_lock.release()
            finally:
                self._lock.release()

    def _close(self) -> None:
        for each in (self._writer, self._reader):
            if each is not None:
                each.close()
        self._writer = self._reader = None

    def _open(self, *, writes: bool = False) -> Connection:
        with explained_errors(self.path):
            if not self.path.parent.is_dir():
                missing = f"the folder of the database does not exist: {self.path.parent}"
                raise ConfigError(f"{missing}; create the folder, or correct the URL")
            create_file(self.path)
            connection = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            try:
                connection.create_function("holds", 3, text_matches, deterministic=True)
                self._configure(connection)
                if writes:
                    connection.execute("PRAGMA busy_timeout = 0")  # `_begin_write` waits instead
                    _begin_write(connection)
                    connection.execute("PRAGMA user_version = 0")  # fails if the file is read-only
                    connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
            return connection

    def _configure(self, connection: Connection) -> None:
        """Set pragmas and prepare the tables. Retries: SQLite does not wait while others initialize a new file."""
        end = time.monotonic() + BUSY_TIMEOUT
        while True:
            try:
                connection.execute(f"PRAGMA synchronous = {self._synchronous if self.syncs_to_disk else 'OFF'}")
                connection.execute("PRAGMA journal_mode = WAL")
                self._prepare(connection)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= end:
                    raise
                time.sleep(0.005)
            else:
                return

    def begin_fork(self) -> None:
        """Wait until nobody uses the file, then close it for the moment of a fork."""
        self._lock.acquire()
        self._read_lock.acquire()
        self._close()

    def end_fork(self) -> None:
        """Allow the parent to use the file again. A child starts without connections."""
        self._read_lock.release()
        self._lock.release()

    def _commit_waiting(self, own: _Ticket) -> None:
        """Commit all waiting work, including that of the caller."""
        tickets: list[_Ticket] = []
        while self._waiting:
            tickets.append(self._waiting.popleft())
        try:
            if self._writer is None:
                self._writer = self._open(writes=True)
            try:
                self._transact(self._writer, tickets)
            except Exception:
                if len(tickets) == 1:
                    raise
                for ticket in tickets:  # one of them broke the transaction, so each gets its own
                    self._commit_alone(self._writer, ticket)
        except Exception as error:  # noqa: BLE001  # raised in the threads that wait for it
            for ticket in tickets:
                if not ticket.done:
                    ticket.error, ticket.done = error, True
        finally:  # after Ctrl-C in this thread, the other threads commit their own work
            self._waiting.extendleft(ticket for ticket in reversed(tickets) if not ticket.done and ticket is not own)

    def _commit_alone(self, connection: Connection, ticket: _Ticket) -> None:
        try:
            self._transact(connection, [ticket])
        except Exception as error:  # noqa: BLE001  # raised in the thread that waits for it
            ticket.error, ticket.done = error, True

    @staticmethod
    def _transact(connection: Connection, tickets: list[_Ticket]) -> None:
        _begin_write(connection)
        committing = False
        try:
            for ticket in tickets:
                ticket.result = ticket.work(connection)
            committing = True
            connection.execute("COMMIT")
        except sqlite3.Error:
            committing = False  # a full disk also ends the transaction, so its end does not prove a commit
            raise
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            elif committing:  # also if Ctrl-C arrives right after COMMIT
                for ticket in tickets:
                    ticket.done = True


@contextmanager
def explained_errors(path: Path) -> Iterator[None]:
    """Turn errors of a block that opens a file into a ConfigError, if the file is the cause; name it in the others."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        found = _file_problem(path, error)
        if found is None:
            error.add_note(f"the database is {path}")
            raise
        raise ConfigError(f"{path} {found}") from error


def _file_problem(path: Path, error: OSError | sqlite3.Error) -> str | None:
    """Return what is wrong with a file and what to do; None if the file is not the cause."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return "is not a SQLite database; check the path, or move the file away"
    if code == sqlite3.SQLITE_CORRUPT:
        return "is damaged; restore a backup"
    if code == sqlite3.SQLITE_CANTOPEN and path.is_dir():
        return "is a folder; give the path of a file"
    can_write = os.access(path.parent, os.W_OK | os.X_OK) and (os.access(path, os.W_OK) or not path.exists())
    may_be_refused = code == sqlite3.SQLITE_CANTOPEN or isinstance(error, OSError)
    if code == sqlite3.SQLITE_READONLY or (may_be_refused and not can_write):
        return "cannot be written by this user; give it write permission for the file and its folder"
    return None


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _begin_write(connection: Connection) -> None:
    """Start a write transaction, waiting for other processes if necessary.

    SQLite's own busy handler waits longer and longer, so one busy process can lock out the others for seconds. Short
    random pauses are fair.
    """
    limit = time.monotonic() + seconds_left(BUSY_TIMEOUT)
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > limit:
                raise
            time.sleep(random.uniform(0.0005, 0.005))  # noqa: S311  # jitter, not security
        else:
            return


def _before_fork() -> None:
    """Close all files. SQLite keeps its locks in memory, and a child would inherit that memory without the locks."""
    _forking.extend(_databases)
    for database in _forking:
        database.begin_fork()


def _after_fork_in_parent() -> None:
    for database in _forking:
        database.end_fork()
    _forking.clear()


around_fork(before=_before_fork, in_parent=_after_fork_in_parent, in_child=_forking.clear)
