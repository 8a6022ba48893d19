"""The ledger of an ETL: which version of each record is known, where its raw object is, and what of it was applied."""

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
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from outlast import clock
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError
from outlast.run.retry import wrap
from outlast.sql_files import load_statements

# Connections to the user's database: the one that was given, or one for each thread that needs it.


class _Closable(Protocol):
    def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=_Closable)
_abandoned: list[object] = []  # connections of a parent process: closing them here would end them there too


class Connections(Generic[ConnectionT]):
    """Hands out connections.

    Args:
        given: The user's own; None to open them here.
        opens: Opens one; not needed beside one that is given.
        is_fit: Tells whether one can be used again: whole, and within no transaction.
    """

    def __init__(
        self, given: ConnectionT | None, opens: Callable[[], ConnectionT] | None, is_fit: Callable[[ConnectionT], bool]
    ) -> None:
        """Open nothing yet."""
        self._given = given
        self._opens = opens
        self._is_fit = is_fit
        self._lock = threading.RLock()
        self._idle: list[ConnectionT] = []
        self._pid = os.getpid()

    @contextmanager
    def one(self) -> Iterator[ConnectionT]:
        """Have a connection for the block."""
        if self._given is not None:
            with self._lock:  # two transactions on one connection would be one
                yield self._given
            return
        connection = self._taken()
        try:
            yield connection
        finally:
            if self._is_fit(connection):
                self._idle.append(connection)
            else:  # the others may have lost the server with it
                _close_quietly(connection)
                self.close()

    def close(self) -> None:
        """Close those that nobody uses; the user's own stays open."""
        self._check_process()
        while self._idle:
            with suppress(IndexError):  # another thread was quicker
                _close_quietly(self._idle.pop())

    def _taken(self) -> ConnectionT:
        self._check_process()
        while self._idle:
            with suppress(IndexError):  # another thread was quicker
                return self._idle.pop()
        assert self._opens is not None  # noqa: S101  # for type checkers: the one that is given is never taken
        return self._opens()

    def _check_process(self) -> None:
        """Forget in a child process what is the parent's."""
        if self._pid != os.getpid():
            _abandoned.extend(self._idle)
            self._idle, self._pid, self._lock = [], os.getpid(), threading.RLock()


def _close_quietly(connection: _Closable) -> None:
    with suppress(Exception):  # it may be broken, which the error at hand tells better
        connection.close()


PAGE_SIZE = 1000
"""Ids that are read at once."""
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}(?:\.[a-z_][a-z0-9_]{0,62})?")


class StagingRow(NamedTuple):
    """One record, unique by source, entity and source_id.

    Attributes:
        source: Where it comes from.
        entity: What it is.
        source_id: Its id there.
        hash: Of the version that was fetched last.
        raw_key: Where that version is in the raw store.
        fetched_at: When that fetch began; aware. A fetch that found nothing new does not move it.
        applied_at: When a version was last applied.
        applied_hash: Which one.
        apply_version: By which version of the user's function.
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
        """Tell whether the version that is stored was applied, by this version of the function or a later one."""
        return self.applied_hash == self.hash and self.apply_version is not None and self.apply_version >= apply_version


class StagingTransaction(Protocol):
    """A transaction of the user's database, with the ledger and the user's own tables in it."""

    @property
    def connection(self) -> Any:
        """The connection, for what is applied. It is not to be committed or rolled back by hand."""

    def upsert(self, row: StagingRow) -> bool:
        """Write what was fetched; False, and nothing is written, if a later fetch is known already."""

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row that nobody else changes until the end of the transaction."""

    def mark_applied(self, row: StagingRow, apply_version: int) -> None:
        """Note that this version of a record was applied."""


class StagingRepo(Protocol):
    """The ledger, in the user's database. Every method is a transaction of its own."""

    def create(self) -> None:
        """Make the table where there is none."""

    def exists_hash(
        self,
        source: str,
        entity: str,
        source_id: str,
        hash: str,  # noqa: A002  # as the column is named
        *,
        apply_version: int | None = None,
    ) -> bool:
        """Tell whether this version of a record is stored and was applied: then there is nothing to be done.

        Args:
            source: Where it comes from.
            entity: What it is.
            source_id: Its id there.
            hash: Of the version.
            apply_version: It must have been applied by this version of the function or a later one; None for any.
        """

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row."""

    def batch_upsert(self, rows: Iterable[StagingRow]) -> int:
        """Write what was fetched, all rows or none; return how many were written, later fetches being left alone.

        Their raw objects must be there already. What was applied is not changed by it: such rows are still to be
        applied.
        """

    def outdated(self, source: str, entity: str, apply_version: int) -> Iterator[str]:
        """Yield the ids of records whose stored version was not applied, or by an older version of the function."""

    def transaction(self) -> AbstractContextManager[StagingTransaction]:
        """Begin a transaction; the end of the block commits it, an error rolls all of it back."""

    def close(self) -> None:
        """Close the connections that were opened here."""


class StagingTable(ABC):
    """What the ledgers of both databases do alike; each brings its transactions and its rows.

    Args:
        policy: Retries what `batch_upsert` does.
    """

    def __init__(self, policy: RetryPolicy | None) -> None:
        """Keep the policy."""
        self._write = wrap(self._upsert_all, policy or preset("etl"), None)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[StagingTransaction]:
        """Begin a transaction."""

    @abstractmethod
    def _read(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Run a query by its name; no transaction is left open by it."""

    @abstractmethod
    def _row(self, found: tuple[Any, ...]) -> StagingRow:
        """Return a row of the table."""

    def exists_hash(
        self,
        source: str,
        entity: str,
        source_id: str,
        hash: str,  # noqa: A002  # as the column is named
        *,
        apply_version: int | None = None,
    ) -> bool:
        """Tell whether this version of a record is stored and was applied."""
        values = {**record_key(source, entity, source_id), "hash": hash, "apply_version": apply_version}
        return bool(self._read("exists_hash", values))

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row."""
        found = self._read("get", record_key(source, entity, source_id))
        return self._row(found[0]) if found else None

    def batch_upsert(self, rows: Iterable[StagingRow]) -> int:
        """Write what was fetched, all rows or none; return how many were written."""
        ordered = sorted(rows, key=lambda row: row[:3])  # two batches in one order cannot deadlock
        written: int = self._write(ordered)
        return written

    def outdated(self, source: str, entity: str, apply_version: int) -> Iterator[str]:
        """Yield the ids of records whose stored version is still to be applied."""
        after = ""
        while True:
            values = {
                "source": source,
                "entity": entity,
                "apply_version": apply_version,
                "after": after,
                "limit": PAGE_SIZE,
            }
            found = [each[0] for each in self._read("outdated", values)]
            yield from found
            if len(found) < PAGE_SIZE:
                return
            after = found[-1]

    def _upsert_all(self, rows: list[StagingRow]) -> int:
        with self.transaction() as transaction:
            return sum(transaction.upsert(row) for row in rows)


def utc_now() -> datetime:
    """Return the time."""
    return datetime.fromtimestamp(clock.now(), UTC)


def record_key(source: str, entity: str, source_id: str) -> dict[str, Any]:
    """Return what tells a record from others, by column."""
    return {"source": source, "entity": entity, "source_id": source_id}


def staging_statements(database: str, table: str) -> dict[str, str]:
    """Return the statements for a database by name, for a table of that name.

    Raises:
        ConfigError: If it is not a valid name of a table.
    """
    if not _TABLE.fullmatch(table):
        message = (
            f"table is {table!r}; choose lower-case letters, digits and underscores, if need be with a schema before"
        )
        raise ConfigError(message)
    quoted = ".".join(f'"{part}"' for part in table.split("."))
    return load_statements(__package__, f"sql/{database}", table=quoted)


# The ledger of an ETL in a SQLite file.

_ENDED_INSIDE = "the transaction was ended from inside, by commit, rollback, executescript or a block `with connection`"


class SqliteTransaction:
    """A transaction with the ledger and the user's own tables in it; see `StagingTransaction`."""

    def __init__(self, connection: sqlite3.Connection, cursor: sqlite3.Cursor, sql: dict[str, str]) -> None:
        """Have begun."""
        self.connection = connection
        self._cursor = cursor
        self._sql = sql

    def upsert(self, row: StagingRow) -> bool:
        """Write what was fetched; False if a later fetch is known already."""
        return self._cursor.execute(self._sql["upsert"], _row_values(row)).rowcount > 0

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row; nobody else writes to the file while the transaction lasts."""
        found = self._cursor.execute(self._sql["get"], record_key(source, entity, source_id)).fetchone()
        return None if found is None else _read_row(found)

    def mark_applied(self, row: StagingRow, apply_version: int) -> None:
        """Note that this version of a record was applied."""
        if not self.connection.in_transaction:  # else it would be marked although the rest may be lost
            raise ConfigError(_ENDED_INSIDE)
        values = {**_row_values(row), "applied_at": _iso_time(utc_now()), "apply_version": apply_version}
        self._cursor.execute(self._sql["mark_applied"], values)


class SqliteStaging(StagingTable):
    """The ledger of an ETL in a SQLite file; see `StagingRepo`.

    Args:
        database: Path of the file, which holds the user's tables too; or a connection, which is then used by one thread
            at a time; or a function that opens one, with ``check_same_thread=False``.
        table: Name of the table.
        policy: Retries what `batch_upsert` does; the transactions of an `Etl` have its own policy.
        timeout: Seconds for which another process may hold the file before that is an error.
    """

    def __init__(
        self,
        database: "str | Path | sqlite3.Connection | Callable[[], sqlite3.Connection]",
        *,
        table: str = "staging",
        policy: RetryPolicy | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Open nothing yet."""
        self._sql = staging_statements("sqlite", table)
        self._path: Path | None = None
        given: sqlite3.Connection | None = None
        opens: Callable[[], sqlite3.Connection] | None = None
        if isinstance(database, sqlite3.Connection):
            given = database
        elif isinstance(database, str | Path):
            if str(database) == ":memory:":
                message = "every connection to :memory: has a database of its own; give a path or a connection"
                raise ConfigError(message)
            self._path = Path(database).absolute()
            opens = partial(_open_file, self._path, timeout)
        else:
            opens = database
        self._connections = Connections(given, opens, lambda connection: not connection.in_transaction)
        super().__init__(policy)

    def create(self) -> None:
        """Make the table where there is none, and the file too."""
        if self._path is not None:
            sqlite3.connect(self._path).close()  # everything else opens a file that is there
        with self.transaction() as transaction:
            transaction.connection.execute(self._sql["create"])

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        """Begin a transaction; the end of the block commits it, an error rolls all of it back.

        Raises:
            ConfigError: If the connection is in a transaction already, or the block ended ours.
        """
        with self._connections.one() as connection:
            _check_free(connection)
            cursor = connection.cursor()
            cursor.row_factory = None
            cursor.execute("BEGIN IMMEDIATE")  # a lock taken later could not be waited for
            try:
                cursor.execute("SAVEPOINT outlast_etl")  # another transaction than ours has none of that name
                yield SqliteTransaction(connection, cursor, self._sql)
                _check_still_ours(cursor)
                cursor.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        cursor.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connections that were opened here."""
        self._connections.close()

    def _read(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self._connections.one() as connection:
            cursor = connection.cursor()
            cursor.row_factory = None
            return cursor.execute(self._sql[name], values).fetchall()

    def _row(self, found: tuple[Any, ...]) -> StagingRow:
        return _read_row(found)


def _open_file(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a file that is there: a look at one that is not makes none."""
    where = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(where, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)


def _check_free(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        message = (
            "the connection is in a transaction already, whose end is not ours to decide; commit it before, "
            "or give a connection with isolation_level=None"
        )
        raise ConfigError(message)


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
