"""The ledger of an ETL in a SQLite file."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.jobs.etl.connections import Connections
from outlast.jobs.etl.staging import StagingRow, StagingTable, key_of, now, statements

__all__ = ["SqliteStaging"]

_ENDED = "the transaction was ended from inside, by commit, rollback, executescript or a block `with connection`"


class SqliteTransaction:
    """A transaction with the ledger and the user's own tables in it; see `StagingTransaction`."""

    def __init__(self, connection: sqlite3.Connection, cursor: sqlite3.Cursor, sql: dict[str, str]) -> None:
        """Have begun."""
        self.connection = connection
        self._cursor = cursor
        self._sql = sql

    def upsert(self, row: StagingRow) -> bool:
        """Write what was fetched; False if a later fetch is known already."""
        return self._cursor.execute(self._sql["upsert"], _stored(row)).rowcount > 0

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row; nobody else writes to the file while the transaction lasts."""
        found = self._cursor.execute(self._sql["get"], key_of(source, entity, source_id)).fetchone()
        return None if found is None else _row(found)

    def mark_applied(self, row: StagingRow, apply_version: int) -> None:
        """Note that this version of a record was applied."""
        if not self.connection.in_transaction:  # else it would be marked although the rest may be lost
            raise ConfigError(_ENDED)
        values = {**_stored(row), "applied_at": _text(now()), "apply_version": apply_version}
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
        self._sql = statements("sqlite", table)
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
            opens = partial(_open, self._path, timeout)
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
        return _row(found)


def _open(path: Path, timeout: float) -> sqlite3.Connection:
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
        raise ConfigError(_ENDED) from error


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _stored(row: StagingRow) -> dict[str, Any]:
    return {**row._asdict(), "fetched_at": _text(row.fetched_at)}


def _row(found: tuple[Any, ...]) -> StagingRow:
    row = StagingRow(*found)
    return row._replace(
        fetched_at=datetime.fromisoformat(found[5]),
        applied_at=None if found[6] is None else datetime.fromisoformat(found[6]),
    )
