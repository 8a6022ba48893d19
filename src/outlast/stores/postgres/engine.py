"""Attempts that are reported without an Outlast worker, in PostgreSQL: by the store or on a caller's connection."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from outlast.errors import LeaseLostError, SchemaError
from outlast.ports.engine import DEFAULT_REPORTER, AttemptState
from outlast.ports.rows import Settlement, Status
from outlast.stores.postgres.connection import Connection
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.schema import LATEST
from outlast.stores.postgres.settle_and_claim import settle
from outlast.stores.postgres.sql import statements


class _ConnectionSource(Protocol):
    sql: dict[str, bytes]

    def connection(self) -> Any:
        """Provide a connection."""


class PostgresCallerConnection:
    """A caller's own connection.

    Work joins the transaction that is open on the connection and commits nothing. If none is open, it is a transaction
    of its own.

    Args:
        connection: A psycopg connection whose search path contains the tables.

    Raises:
        SchemaError: If the tables are missing or have another version.
    """

    def __init__(self, connection: Connection) -> None:
        self.sql = statements(None)
        self._connection = connection
        self._lock = threading.RLock()
        with connection.transaction():
            cursor = _tuple_cursor(connection)
            known = cursor.execute(self.sql["has_version"]).fetchall()[0][0]
            version = cursor.execute(self.sql["schema_version"]).fetchall()[0][0] if known else 0
        if version != LATEST:
            raise SchemaError(version or 0, LATEST)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Provide the connection."""
        with self._lock:
            yield self._connection


class PostgresEngineTasks:
    """Implements `EngineTasks`.

    Args:
        db: The store's database, or a caller's connection.
    """

    def __init__(self, db: _ConnectionSource) -> None:
        self._db = db

    def attempt_state(self, task_id: int) -> AttemptState | None:
        """Return the state of a task."""
        with self._db.connection() as connection, connection.transaction():
            rows = _tuple_cursor(connection).execute(self._db.sql["attempt_state"], {"id": task_id}).fetchall()
        return AttemptState(rows[0][0], Status(rows[0][1]), *rows[0][2:]) if rows else None

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
        sql = self._db.sql
        values = {
            "id": settlement.task_id,
            "attempt": attempt,
            "epoch": epoch,
            "reporter": reporter or DEFAULT_REPORTER,
            "unbegun": unbegun,
        }
        with self._db.connection() as connection, connection.transaction():
            cursor = _tuple_cursor(connection)
            rows = cursor.execute(sql["take_attempt"], values).fetchall()
            return bool(rows) and not settle(cursor, sql, [settlement._replace(epoch=rows[0][0])])

    def begin(self, task_id: int, attempt: int, worker_id: str) -> int | None:
        """Mark the start of an attempt if it is the current one and has not started."""
        sql, values = self._db.sql, {"id": task_id, "attempt": attempt, "worker_id": worker_id}
        with self._db.connection() as connection, connection.transaction():
            cursor = _tuple_cursor(connection)
            if not cursor.execute(sql["hold_lease"], {"worker_id": worker_id}).fetchall():
                raise LeaseLostError(worker_id)
            rows = cursor.execute(sql["start_attempt"], values).fetchall()
        return int(rows[0][0]) if rows else None

    def release_to_engine(self, tasks: Sequence[tuple[int, int]], seconds: float) -> int:
        """Release claimed tasks to the engine, where they wait for their messages."""
        ids, epochs = [pair[0] for pair in tasks], [pair[1] for pair in tasks]
        values = {"ids": ids, "epochs": epochs, "seconds": seconds}
        with self._db.connection() as connection, connection.transaction():
            return int(_tuple_cursor(connection).execute(self._db.sql["release_to_engine"], values).rowcount)

    def running(self, worker_id: str) -> list[tuple[int, int]]:
        """Return the tasks that a worker holds."""
        values = {"worker_id": worker_id}
        with self._db.connection() as connection, connection.transaction():
            rows = _tuple_cursor(connection).execute(self._db.sql["tasks_of_worker"], values).fetchall()
        return [(int(number), int(epoch)) for number, epoch in rows]

    def find_by_key(self, task_type: str, unique_key: str) -> int | None:
        """Return the latest task that has or had a key."""
        values = {"task_type": task_type, "unique_key": unique_key}
        with self._db.connection() as connection, connection.transaction():
            rows = _tuple_cursor(connection).execute(self._db.sql["latest_by_key"], values).fetchall()
        return int(rows[0][0]) if rows else None


def connection_url(connection: Connection) -> str:
    """Return connection parameters for another connection to the same database."""
    password = {"password": connection.info.password} if connection.info.password else {}
    return psycopg.conninfo.make_conninfo(connection.info.dsn, **password)


def _tuple_cursor(connection: Connection) -> Any:
    """Return a cursor whose rows are tuples, whatever row factory the caller uses."""
    return psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
