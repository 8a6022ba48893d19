"""Attempts that are reported without an Outlast worker, in SQLite: through the store or on a caller's connection."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from sqlite3 import Connection, Cursor
from typing import Any, TypeVar

from outlast.errors import LeaseLostError
from outlast.ports.rows import Settlement
from outlast.stores.counters import CounterDelta
from outlast.stores.shared_methods import SharedAttempts
from outlast.stores.sqlite.connection import (
    SqliteStatements,
    bind,
    caller_transaction,
    execute,
    milliseconds,
    tuple_cursor,
    write_transaction,
)
from outlast.stores.sqlite.counters import write_delta
from outlast.stores.sqlite.schema import prepare_schema
from outlast.stores.sqlite.settle_and_claim import settle

T = TypeVar("T")


class SqliteCallerConnection(SqliteStatements):
    """A caller's own connection. Missing tables are created.

    Work joins the transaction that is open on the connection and commits nothing. If none is open, it is a transaction
    of its own.

    Args:
        connection: May have any row factory and isolation level.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        row_factory, connection.row_factory = connection.row_factory, None
        try:
            prepare_schema(connection, self._begin)
        finally:
            connection.row_factory = row_factory

    def read(self, work: Callable[[Any], T]) -> T:
        """Run work that only reads."""
        with self._lock:
            return work(tuple_cursor(self._connection))

    def write(self, work: Callable[[Any], T]) -> T:
        """Run work in a transaction."""
        with self._lock, self._begin(self._connection) as cursor:
            return work(cursor)

    @staticmethod
    def _begin(connection: Connection) -> AbstractContextManager[Cursor]:
        return caller_transaction(connection) if connection.in_transaction else write_transaction(connection)


class SqliteEngineTasks(SharedAttempts):
    """Implements `EngineTasks`.

    Args:
        db: The store's file, or a caller's connection.
    """

    def __init__(self, db: SqliteStatements) -> None:
        self.db: SqliteStatements = db

    def _claim_and_settle(self, settlement: Settlement, values: dict[str, Any]) -> bool:
        """Claim the task with "take_attempt" and settle it, in one transaction."""

        def work(connection: Any) -> bool:
            bound, delta = bind(values), CounterDelta()
            row = execute(connection, "take_attempt", bound).fetchone()
            if row is None or not settle(connection, settlement._replace(epoch=row[0]), bound["now"], delta):
                return False
            write_delta(connection, delta, bound["now"])
            return True

        return self.db.write(work)

    def begin(self, task_id: int, attempt: int, worker_id: str) -> int | None:
        """Mark the start of an attempt if it is the current one and has not started."""
        values = {"id": task_id, "attempt": attempt, "worker_id": worker_id}

        def work(connection: Any) -> int | None:
            bound = bind(values)
            if execute(connection, "worker_and_pauses", bound).fetchone()[0] is None:
                raise LeaseLostError(worker_id)
            row = execute(connection, "start_attempt", bound).fetchone()
            return None if row is None else int(row[0])

        return self.db.write(work)

    def release_to_engine(self, tasks: Sequence[tuple[int, int]], seconds: float) -> int:
        """Release claimed tasks to the engine, where they wait for their messages."""
        return self.db.change("release_to_engine", {"tasks": list(tasks), "delay": milliseconds(seconds)})


def connection_file(connection: Connection) -> str:
    """Return the path of the file behind a connection; empty for a database in memory."""
    rows = tuple_cursor(connection).execute("PRAGMA database_list").fetchall()
    return next((str(path or "") for _, name, path in rows if name == "main"), "")
