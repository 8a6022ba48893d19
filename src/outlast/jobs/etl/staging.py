"""The ledger of an ETL: the stored and the applied version of each record; and its implementation for SQLite."""

# ruff: noqa: A002  # hash is the name of a column

import os
import re
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from outlast import clock
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError
from outlast.jobs.target_feed import id_text
from outlast.private_files import create_file
from outlast.run.retry import wrap
from outlast.sql_files import load_statements

_abandoned: list[object] = []  # connections of the parent process: closing them here would break them there


class Connections:
    """Lends connections to the user's database: the shared one, or one for each thread.

    Args:
        database: The connection of the user, or a function that opens one.
        kind: Class of a connection.
        is_reusable: Returns whether a connection can be used again: it works, and is not in a transaction.
    """

    def __init__(self, database: Any, kind: type, is_reusable: Callable[[Any], bool]) -> None:
        self._shared = database if isinstance(database, kind) else None
        self._connect = database
        self._is_reusable = is_reusable
        self._lock = threading.RLock()
        self._idle: list[Any] = []
        self._pid = os.getpid()

    @contextmanager
    def one(self) -> Iterator[Any]:
        """Lend a connection for the block."""
        if self._shared is not None:
            with self._lock:  # two transactions on one connection would be one
                yield self._shared
            return
        connection = self._take()
        try:
            yield connection
        finally:
            if self._is_reusable(connection):
                self._idle.append(connection)
            else:  # the others may have lost the server with it
                _close_quietly(connection)
                self.close()

    def close(self) -> None:
        """Close the idle connections; the shared one stays open."""
        self._check_process()
        while self._idle:
            with suppress(IndexError):  # another thread took it
                _close_quietly(self._idle.pop())

    def _take(self) -> Any:
        self._check_process()
        while self._idle:
            with suppress(IndexError):  # another thread took it
                return self._idle.pop()
        return self._connect()

    def _check_process(self) -> None:
        """Drop the connections of the parent process after a fork."""
        if self._pid != os.getpid():
            _abandoned.extend(self._idle)
            self._idle, self._pid, self._lock = [], os.getpid(), threading.RLock()


def _close_quietly(connection: Any) -> None:
    with suppress(Exception):  # it may be broken; the original error says so
        connection.close()


PAGE_SIZE = 1000
"""Ids read per query."""
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}(?:\.[a-z_][a-z0-9_]{0,62})?")


class StagingRow(NamedTuple):
    """One record, unique by source, entity and source_id.

    Attributes:
        source: Where it comes from.
        entity: What it is.
        source_id: Its id there.
        hash: Hash of the version that was fetched last.
        raw_key: Key of that version in the raw store.
        fetched_at: When that fetch started, with time zone. A fetch that finds no change does not update it.
        applied_at: When a version was last applied.
        applied_hash: Hash of that version.
        apply_version: The `apply_version` that applied it.
    """

    source: str
    entity: str
    source_id: str
    hash: str
    raw_key: str
    fetched_at: datetime
    applied_at: datetime | None = None
    applied_hash: str | None = None
    apply_version: int | None = None

    def is_applied(self, apply_version: int) -> bool:
        """Return whether the stored version was applied, by this `apply_version` or a later one."""
        return self.applied_hash == self.hash and self.apply_version is not None and self.apply_version >= apply_version


class StagingTransaction(Protocol):
    """A transaction in the user's database, over the ledger and the user's tables."""

    @property
    def connection(self) -> Any:
        """The connection, for `apply`. Do not commit it or roll it back."""

    def upsert(self, row: StagingRow) -> bool:
        """Write a row and return True; return False and write nothing if a later fetch is stored."""

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row, locked until the end of the transaction; None if it does not exist."""

    def mark_applied(self, row: StagingRow, apply_version: int) -> None:
        """Record that this version of a record was applied."""


class StagingRepo(Protocol):
    """Interface of the ledger, in the user's database. Every method is its own transaction."""

    def create(self) -> None:
        """Create the table if it does not exist."""

    def exists_hash(
        self, source: str, entity: str, source_id: str, hash: str, *, apply_version: int | None = None
    ) -> bool:
        """Return whether this version of a record is stored and applied, so that there is nothing to do.

        Args:
            source: Where it comes from.
            entity: What it is.
            source_id: Its id there.
            hash: Hash of the version.
            apply_version: Lowest `apply_version` that counts; None for any.
        """

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row; None if it does not exist."""

    def batch_upsert(self, rows: Iterable[StagingRow]) -> int:
        """Write all rows or none; return how many were written. Rows of later fetches are not overwritten.

        Their raw objects must exist already. This does not mark the rows as applied.
        """

    def outdated(self, source: str, entity: str, apply_version: int) -> Iterator[str]:
        """Yield the ids of records whose stored version is not applied, or was applied by an older `apply_version`."""

    def transaction(self) -> AbstractContextManager[StagingTransaction]:
        """Start a transaction; the end of the block commits it, an error rolls it back."""

    def close(self) -> None:
        """Close the connections that this object has opened."""


class StagingTable(ABC):
    """The common part of the ledgers in SQLite and PostgreSQL.

    Args:
        to_row: Turns a row of the database into a `StagingRow`.
        connections: Lends connections to the database.
        policy: Retries `batch_upsert`.
    """

    def __init__(
        self,
        to_row: Callable[[tuple[Any, ...]], StagingRow],
        connections: Connections,
        policy: RetryPolicy | None,
    ) -> None:
        self._row = to_row
        self._connections = connections
        self._write = wrap(self._upsert_all, policy or preset("etl"), None)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[StagingTransaction]:
        """Start a transaction."""

    @abstractmethod
    def _read(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a named query; it leaves no transaction open."""

    def exists_hash(
        self, source: str, entity: str, source_id: str, hash: str, *, apply_version: int | None = None
    ) -> bool:
        """Return whether this version of a record is stored and applied."""
        values = {**record_key(source, entity, source_id), "hash": hash, "apply_version": apply_version}
        return bool(self._read("exists_hash", values))

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row; None if it does not exist."""
        found = self._read("get", record_key(source, entity, source_id))
        return self._row(found[0]) if found else None

    def batch_upsert(self, rows: Iterable[StagingRow]) -> int:
        """Write all rows or none; return how many were written."""
        given = (row._replace(source_id=id_text(row.source_id)) for row in rows)
        ordered = sorted(given, key=lambda row: row[:3])  # batches in the same order cannot deadlock
        written: int = self._write(ordered)
        return written

    def outdated(self, source: str, entity: str, apply_version: int) -> Iterator[str]:
        """Yield the ids of records whose stored version is not applied."""
        after = ""
        while True:
            values = {"source": source, "entity": entity, "apply_version": apply_version, "after": after}
            found = [each[0] for each in self._read("outdated", {**values, "limit": PAGE_SIZE})]
            yield from found
            if len(found) < PAGE_SIZE:
                return
            after = found[-1]

    def close(self) -> None:
        """Close the connections that this object has opened."""
        self._connections.close()

    def _upsert_all(self, rows: list[StagingRow]) -> int:
        with self.transaction() as transaction:
            return sum(transaction.upsert(row) for row in rows)


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.fromtimestamp(clock.now(), UTC)


def record_key(source: str, entity: str, source_id: str | int) -> dict[str, Any]:
    """Return the primary key of a record, by column."""
    return {"source": source, "entity": entity, "source_id": id_text(source_id)}


def staging_statements(database: str, table: str) -> dict[str, str]:
    """Return the SQL statements of a database by name, for this table.

    Raises:
        ConfigError: If the table name is not valid.
    """
    if not _TABLE.fullmatch(table):
        raise ConfigError(
            f"table is {table!r}; use lower-case letters, digits and underscores, and optionally a schema in front"
        )
    quoted = ".".join(f'"{part}"' for part in table.split("."))
    return load_statements(__package__, f"sql/{database}", table=quoted)


_ENDED_INSIDE = (
    "the code in the transaction ended it, by commit, rollback, executescript or `with connection`; leave it open"
)


class SqliteTransaction:
    """A `StagingTransaction` in SQLite."""

    def __init__(self, connection: sqlite3.Connection, cursor: sqlite3.Cursor, sql: dict[str, str]) -> None:
        self.connection = connection
        self._cursor = cursor
        self._sql = sql

    def upsert(self, row: StagingRow) -> bool:
        """Write a row and return True; return False if a later fetch is stored."""
        return self._cursor.execute(self._sql["upsert"], _row_values(row)).rowcount > 0

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row; the transaction keeps other writers out of the file."""
        found = self._cursor.execute(self._sql["get"], record_key(source, entity, source_id)).fetchone()
        return None if found is None else _read_row(found)

    def mark_applied(self, row: StagingRow, apply_version: int) -> None:
        """Record that this version of a record was applied."""
        if not self.connection.in_transaction:  # else it would be marked although apply may be lost
            raise ConfigError(_ENDED_INSIDE)
        values = {**_row_values(row), "applied_at": _iso_time(utc_now()), "apply_version": apply_version}
        self._cursor.execute(self._sql["mark_applied"], values)


class SqliteStaging(StagingTable):
    """The ledger of an ETL in a SQLite file; see `StagingRepo`.

    Args:
        database: Path of the file, which also contains the user's tables; or a connection, which one thread at a time
            uses; or a function that opens a connection, with ``check_same_thread=False``.
        table: Name of the table.
        policy: Retries `batch_upsert`; the transactions of an `Etl` are retried by its own policy.
        timeout: Seconds to wait for the lock of the file.
    """

    def __init__(
        self,
        database: "str | Path | sqlite3.Connection | Callable[[], sqlite3.Connection]",
        *,
        table: str = "staging",
        policy: RetryPolicy | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._sql = staging_statements("sqlite", table)
        self._path: Path | None = None
        if isinstance(database, str | Path):
            if str(database) == ":memory:":
                raise ConfigError("every connection to :memory: opens a separate database; pass a path or a connection")
            self._path = Path(database).absolute()
            database = partial(_open_file, self._path, timeout)
        connections = Connections(database, sqlite3.Connection, lambda connection: not connection.in_transaction)
        super().__init__(_read_row, connections, policy)

    def create(self) -> None:
        """Create the table, and the file, if they do not exist."""
        if self._path is not None:
            create_file(self._path)  # all other connections open an existing file only
        with self.transaction() as transaction:
            transaction.connection.execute(self._sql["create"])

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        """Start a transaction; the end of the block commits it, an error rolls it back.

        Raises:
            ConfigError: If the connection is already in a transaction, or the block ended ours.
        """
        with self._connections.one() as connection:
            if connection.in_transaction:
                raise ConfigError(
                    "the connection is already in a transaction; commit it first, or pass a connection with "
                    "isolation_level=None"
                )
            cursor = _plain_cursor(connection)
            cursor.execute("BEGIN IMMEDIATE")  # SQLite does not wait for a lock that is taken later
            try:
                cursor.execute("SAVEPOINT outlast_etl")  # it does not exist in any other transaction
                yield SqliteTransaction(connection, cursor, self._sql)
                _check_still_ours(cursor)
                cursor.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        cursor.execute("ROLLBACK")
                raise

    def _read(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self._connections.one() as connection:
            return _plain_cursor(connection).execute(self._sql[name], values).fetchall()


def _plain_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """Return a cursor of plain rows, even if the connection has its own row factory."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


def _open_file(path: Path, timeout: float) -> sqlite3.Connection:
    """Open an existing file; a missing one is not created."""
    uri = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)


def _check_still_ours(cursor: sqlite3.Cursor) -> None:
    try:
        cursor.execute("RELEASE outlast_etl")
    except sqlite3.OperationalError as error:
        if "no such savepoint" not in str(error):
            raise
        raise ConfigError(_ENDED_INSIDE) from error


def _iso_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _row_values(row: StagingRow) -> dict[str, Any]:
    return {**row._asdict(), "fetched_at": _iso_time(row.fetched_at)}


def _read_row(found: tuple[Any, ...]) -> StagingRow:
    row = StagingRow(*found)
    return row._replace(
        fetched_at=datetime.fromisoformat(found[5]),
        applied_at=None if found[6] is None else datetime.fromisoformat(found[6]),
    )
