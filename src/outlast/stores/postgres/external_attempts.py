"""Attempts that are reported without an Outlast worker, in PostgreSQL: by the store or on a caller's connection."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from outlast.errors import LeaseLostError, SchemaError
from outlast.ports.rows import Settlement
from outlast.stores.postgres.connection import (
    LATEST,
    Connection,
    PostgresCursor,
    PostgresStatements,
    find_schema,
    schema_version,
)
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.settle_and_claim import settle
from outlast.stores.postgres.sql import DEFAULT_SCHEMA, statements
from outlast.stores.shared_methods import SharedAttempts

_NOT_FOUND = (
    "the database has no Outlast tables in the schema outlast or in the search path of this connection; run: outlast "
    "db init, or SET search_path to the schema that has them"
)


class PostgresCallerConnection(PostgresStatements):
    """A caller's own connection.

    Work joins the transaction that is open on the connection and commits nothing. If none is open, it is a transaction
    of its own.

    Args:
        connection: A psycopg connection. The tables are in the schema ``outlast`` or in its search path.

    Raises:
        SchemaError: If the tables are missing or have another version.
    """

    def __init__(self, connection: Connection) -> None:
        schema = connection_schema(connection)
        if schema is None:
            raise SchemaError(0, LATEST, _NOT_FOUND)
        self.sql = statements(schema)
        self._connection = connection
        self._lock = threading.RLock()
        with self.transaction() as cursor:
            version = schema_version(cursor)
        if version != LATEST:
            raise SchemaError(version, LATEST)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Provide the connection, in a transaction."""
        with self._lock, self._connection.transaction():
            yield self._connection

    @contextmanager
    def transaction(self) -> Iterator[PostgresCursor]:
        """Run a block in a transaction."""
        with self.connection() as connection:
            yield PostgresCursor(connection, self.sql)


class PostgresEngineTasks(SharedAttempts):
    """Implements `EngineTasks`.

    Args:
        db: The store's database, or a caller's connection.
    """

    def __init__(self, db: PostgresStatements) -> None:
        self.db: PostgresStatements = db

    def _claim_and_settle(self, settlement: Settlement, values: dict[str, Any]) -> bool:
        """Claim the task with "take_attempt" and settle it, in one transaction."""
        with self.db.transaction() as cursor:
            rows = cursor.fetch("take_attempt", values)
            return bool(rows) and not settle(cursor, [settlement._replace(epoch=rows[0][0])])

    def begin(self, task_id: int, attempt: int, worker_id: str) -> int | None:
        """Mark the start of an attempt if it is the current one and has not started."""
        with self.db.transaction() as cursor:
            if not cursor.fetch("hold_lease", {"worker_id": worker_id}):
                raise LeaseLostError(worker_id)
            rows = cursor.fetch("start_attempt", {"id": task_id, "attempt": attempt, "worker_id": worker_id})
        return int(rows[0][0]) if rows else None

    def release_to_engine(self, tasks: Sequence[tuple[int, int]], seconds: float) -> int:
        """Release claimed tasks to the engine, where they wait for their messages."""
        ids, epochs = [pair[0] for pair in tasks], [pair[1] for pair in tasks]
        return self.db.change("release_to_engine", {"ids": ids, "epochs": epochs, "seconds": seconds})


def connection_url(connection: Connection) -> str:
    """Return connection parameters for another connection to the same database."""
    password = {"password": connection.info.password} if connection.info.password else {}
    return psycopg.conninfo.make_conninfo(connection.info.dsn, **password)


def connection_schema(connection: Connection) -> str | None:
    """Return the schema of the tables for a connection: ``outlast``, or the first in its search path that has them."""
    with connection.transaction():
        return find_schema(PostgresCursor(connection, statements(DEFAULT_SCHEMA)))
