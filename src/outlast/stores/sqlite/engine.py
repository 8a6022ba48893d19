"""Attempts that are reported without an Outlast worker, in SQLite: through the store or on a caller's connection."""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from outlast.errors import LeaseLostError, SchemaError
from outlast.ports.engine import DEFAULT_REPORTER, AttemptState
from outlast.ports.rows import Settlement, Status
from outlast.sql_files import load_statements
from outlast.stores.counters import CounterDelta
from outlast.stores.sqlite.connection import SqliteDatabase, caller_transaction, milliseconds, now_ms
from outlast.stores.sqlite.counters import write_delta
from outlast.stores.sqlite.schema import LATEST, migrate, prepare_schema, schema_version
from outlast.stores.sqlite.settle_and_claim import settle

SQL = load_statements(__package__)
T = TypeVar("T")


class SqliteCallerConnection:
    """A caller's own connection. Missing tables are created.

    Work joins the transaction that is open on the connection and commits nothing. If none is open, it is a transaction
    of its own.

    Args:
        connection: May have any row factory and isolation level.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        row_factory, connection.row_factory = connection.row_factory, None
        try:
            if connection.in_transaction:
                _migrate_within(connection)
            else:
                prepare_schema(connection)
        finally:
            connection.row_factory = row_factory

    def read(self, work: Callable[[Any], T]) -> T:
        """Run work that only reads."""
        with self._lock:
            return work(_tuple_cursor(self._connection))

    def write(self, work: Callable[[Any], T]) -> T:
        """Run work in a transaction."""
        with self._lock, _transaction(self._connection) as cursor:
            return work(cursor)


class SqliteEngineTasks:
    """Implements `EngineTasks`.

    Args:
        db: The store's file, or a caller's connection.
    """

    def __init__(self, db: SqliteDatabase | SqliteCallerConnection) -> None:
        self._db = db

    def attempt_state(self, task_id: int) -> AttemptState | None:
        """Return the state of a task."""
        values = {"id": task_id, "now": now_ms()}
        row = self._db.read(lambda connection: connection.execute(SQL["attempt_state"], values).fetchone())
        return None if row is None else AttemptState(*row)._replace(status=Status(row[1]), canary=bool(row[6]))

    def settle_attempt(
        self,
        settlement: Settlement,
        attempt: int,
        *,
        epoch: int | None = None,
        reporter: str | None = None,
        unbegun: bool = False,
    ) -> bool:
        """Claim the task if its attempt is the current one, and settle it."""
        values = {
            "id": settlement.task_id,
            "attempt": attempt,
            "epoch": epoch,
            "reporter": reporter or DEFAULT_REPORTER,
            "unbegun": unbegun,
        }

        def work(connection: Any) -> bool:
            now = now_ms()
            row = connection.execute(SQL["take_attempt"], values | {"now": now}).fetchone()
            delta = CounterDelta()
            if row is None or not settle(connection, settlement._replace(epoch=row[0]), now, delta):
                return False
            write_delta(connection, delta, now)
            return True

        return self._db.write(work)

    def begin(self, task_id: int, attempt: int, worker_id: str) -> int | None:
        """Mark the start of an attempt if it is the current one and has not started."""
        values = {"id": task_id, "attempt": attempt, "worker_id": worker_id}

        def work(connection: Any) -> int | None:
            now = now_ms()
            if connection.execute(SQL["worker_and_pauses"], {"worker_id": worker_id, "now": now}).fetchone()[0] is None:
                raise LeaseLostError(worker_id)
            row = connection.execute(SQL["start_attempt"], values | {"now": now}).fetchone()
            return None if row is None else int(row[0])

        return self._db.write(work)

    def release_to_engine(self, tasks: Sequence[tuple[int, int]], seconds: float) -> int:
        """Release claimed tasks to the engine, where they wait for their messages."""
        values = {"tasks": json.dumps(tasks), "delay": milliseconds(seconds)}

        def work(connection: Any) -> int:
            return int(connection.execute(SQL["release_to_engine"], values | {"now": now_ms()}).rowcount)

        return self._db.write(work)

    def running(self, worker_id: str) -> list[tuple[int, int]]:
        """Return the tasks that a worker holds."""
        values = {"worker_id": worker_id}
        rows = self._db.read(lambda connection: connection.execute(SQL["tasks_of_worker"], values).fetchall())
        return [(int(number), int(epoch)) for number, epoch in rows]

    def find_by_key(self, task_type: str, unique_key: str) -> int | None:
        """Return the latest task that has or had a key."""
        values = {"task_type": task_type, "unique_key": unique_key}
        row = self._db.read(lambda connection: connection.execute(SQL["latest_by_key"], values).fetchone())
        return None if row is None else int(row[0])


def connection_file(connection: sqlite3.Connection) -> str:
    """Return the path of the file behind a connection; empty for a database in memory."""
    rows = _tuple_cursor(connection).execute("PRAGMA database_list").fetchall()
    return next((str(path or "") for _, name, path in rows if name == "main"), "")


def _tuple_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    if connection.in_transaction:
        with caller_transaction(connection) as cursor:
            yield cursor
    else:
        with _own_transaction(connection) as cursor:
            yield cursor


@contextmanager
def _own_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    cursor = _tuple_cursor(connection)
    cursor.execute("BEGIN IMMEDIATE")
    try:
        yield cursor
        cursor.execute("COMMIT")
    finally:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")


def _migrate_within(connection: sqlite3.Connection) -> None:
    found = schema_version(connection)
    if found > LATEST:
        raise SchemaError(found, LATEST)
    if found < LATEST:
        with caller_transaction(connection):
            migrate(connection)
