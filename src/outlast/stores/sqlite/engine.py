"""Attempts of those who have no worker of ours, in SQLite: through the store, or on a connection of the caller's."""

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
    """A caller's own connection, whose tables are created if they are missing.

    Work is a transaction of its own where none is open. Where the caller has one open, it is part of that, and nothing
    is committed.

    Args:
        connection: Whatever it makes of rows and transactions.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        """See to the tables."""
        self._connection = connection
        self._lock = threading.RLock()
        made_of_rows, connection.row_factory = connection.row_factory, None
        try:
            if connection.in_transaction:
                _migrate_within(connection)
            else:
                prepare_schema(connection)
        finally:
            connection.row_factory = made_of_rows

    def read(self, work: Callable[[Any], T]) -> T:
        """Run work that only reads."""
        with self._lock:
            return work(_tuple_cursor(self._connection))

    def write(self, work: Callable[[Any], T]) -> T:
        """Run work in a transaction."""
        with self._lock, _transaction(self._connection) as cursor:
            return work(cursor)


class SqliteEngineTasks:
    """The duty `Lending`.

    Args:
        db: The store's file, or a caller's connection.
    """

    def __init__(self, db: SqliteDatabase | SqliteCallerConnection) -> None:
        """Keep the database."""
        self._db = db

    def attempt_state(self, task_id: int) -> AttemptState | None:
        """Return how a task stands."""
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
        """Take the task up, if its attempt is the current one, and settle it."""
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
            tally = CounterDelta()
            if row is None or not settle(connection, settlement._replace(epoch=row[0]), now, tally):
                return False
            write_delta(connection, tally, now)
            return True

        return self._db.write(work)

    def begin(self, task_id: int, attempt: int, worker_id: str) -> int | None:
        """Mark the start of an attempt, if it is the current one and has not begun."""
        values = {"id": task_id, "attempt": attempt, "worker_id": worker_id}

        def work(connection: Any) -> int | None:
            now = now_ms()
            if connection.execute(SQL["worker_and_pauses"], {"worker_id": worker_id, "now": now}).fetchone()[0] is None:
                raise LeaseLostError(worker_id)
            row = connection.execute(SQL["start_attempt"], values | {"now": now}).fetchone()
            return None if row is None else int(row[0])

        return self._db.write(work)

    def release_to_engine(self, tasks: Sequence[tuple[int, int]], seconds: float) -> int:
        """Have tasks wait for their messages."""
        values = {"tasks": json.dumps(tasks), "delay": milliseconds(seconds)}

        def work(connection: Any) -> int:
            return int(connection.execute(SQL["lend_tasks"], values | {"now": now_ms()}).rowcount)

        return self._db.write(work)

    def running(self, worker_id: str) -> list[tuple[int, int]]:
        """Return what a worker has in its hands."""
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
