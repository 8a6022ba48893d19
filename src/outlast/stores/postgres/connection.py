"""A PostgreSQL database in a process: a connection pool that opens on first use.

Connections are in autocommit mode; several statements need an explicit transaction.
"""

import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from outlast.errors import ConfigError, SchemaError
from outlast.ports.store import seconds_left
from outlast.stores.postgres.driver import psycopg, psycopg_pool
from outlast.stores.postgres.sql import scripts, statements

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Rows: TypeAlias = list[tuple[Any, ...]]
Threshold: TypeAlias = int | Literal["auto"] | None


def in_utc(row: Sequence[Any]) -> list[Any]:
    """Return a row with its times in UTC; the server returns them in the time zone of the session."""
    return [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]


# A pooler such as PgBouncer may use another session for each transaction. It does not identify itself, so it is
# recognised by its behaviour.
_POOLER_ROUNDS = 5  # on a busy pool, other clients may interfere


def is_behind_pooler(connection: Connection) -> bool:
    """Return whether the connection goes to a pooler, which gives each client its own backend number."""
    return connection.info.backend_pid != _server_process(connection)


def keeps_sessions(connection: Connection, another: AbstractContextManager[Connection]) -> bool:
    """Return whether a pooler keeps one session per client, as far as that can be detected.

    Another client in a transaction has a session to itself. If that session was ours, or if we get another one then,
    the pooler shares sessions.

    Args:
        connection: Our connection.
        another: Provides a second connection.
    """
    ours = _server_process(connection)
    with another as other:
        for _ in range(_POOLER_ROUNDS):
            with other.transaction():
                if _server_process(other) == ours or _server_process(connection) != ours:
                    return False
    return True


def _server_process(connection: Connection) -> int:
    number: int = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchall()[0][0]
    return number


_POOL_TIMEOUT = 10.0
"""Seconds to wait for a connection."""
_MIN_POOL_TIMEOUT = 0.05
"""Seconds to wait even if no time is left: enough to get a free connection."""
_DEFAULT_PARAMETERS = {
    "connect_timeout": "10",
    "fallback_application_name": "outlast",
    "client_encoding": "UTF8",
    # detect a peer that vanished within half a minute, not after hours
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_PREPARED_AFTER = 5
"""Default number of executions after which a statement is prepared."""
_MAX_SPARE = 4
"""Connections that stay with this process instead of returning to the pool after each use."""
_SPARE_SECONDS = 300.0
"""Seconds after which such a connection returns to the pool, which may renew it."""
_FRESH_SECONDS = 0.02
"""Seconds after its last use during which a connection is not checked."""
_abandoned: list[Any] = []  # pools of a parent process; closing them here would end the parent's sessions


class _PooledConnection:
    """A connection taken from the pool.

    Attributes:
        connection: The connection.
        pool: Its pool.
        since: When it was taken from the pool.
        used: When it was last used; minus infinity for a new one.
    """

    __slots__ = ("connection", "pool", "since", "used")
    connection: Connection

    def __init__(self, pool: Any, since: float) -> None:
        self.pool, self.since, self.used = pool, since, -math.inf


class PostgresDatabase:
    """A PostgreSQL database.

    Args:
        url: ``postgresql://…``, or libpq keywords.
        schema: Schema of the tables; None for the first one in the search path.
        min_size: Connections that are kept open.
        max_size: Maximum number of connections.
        prepare_threshold: Number of executions after which a statement is prepared; None for never. ``"auto"`` means 5,
            or never behind a pooler.
        pooled: Whether a pooler may switch sessions between transactions; None to detect it.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str | None,
        min_size: int,
        max_size: int,
        prepare_threshold: Threshold,
        pooled: bool | None,
    ) -> None:
        self.sql = statements(schema)
        self.schema = schema
        self._parameters = _DEFAULT_PARAMETERS | _parse_url(url)
        self._min_size, self._max_size = min_size, max_size
        self._prepare_threshold = prepare_threshold
        self._pooled = pooled
        self._reset()

    def _reset(self) -> None:
        """Start without a pool: initially, and in a child process, which must not use that of its parent."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pool: Any = None
        self._spare: deque[_PooledConnection] = deque()

    def _open_pool(self) -> Any:
        if self._pid != os.getpid():
            _abandoned.extend((self._pool, self._spare))
            self._reset()
        with self._lock:
            if self._pool is None:
                self.connect().close()  # fail at once on a wrong password; the pool would keep trying
                self._pool = psycopg_pool.ConnectionPool(
                    "",
                    min_size=self._min_size,
                    max_size=self._max_size,
                    kwargs={**self._parameters, "autocommit": True, "prepare_threshold": self._threshold},
                    name="outlast",
                    timeout=_POOL_TIMEOUT,
                    reconnect_timeout=2.0,  # its pauses grow, so a new attempt at the next call finds the server sooner
                    open=True,
                )
            return self._pool

    def connect(self) -> Connection:
        """Open a connection outside of the pool."""
        left = seconds_left(math.inf)
        timeout = {} if left == math.inf else {"connect_timeout": str(max(2, math.ceil(left)))}  # libpq's minimum is 2
        connection = psycopg.connect("", **(self._parameters | timeout), autocommit=True, prepare_threshold=None)
        try:
            if self._pooled is None:
                self._pooled = is_behind_pooler(connection)
        except BaseException:
            connection.close()
            raise
        connection.prepare_threshold = self._threshold
        return connection

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler may switch sessions, as configured or as the first connection has shown."""
        return bool(self._pooled)

    @property
    def _threshold(self) -> int | None:
        if self._prepare_threshold == "auto":
            return None if self._pooled else _PREPARED_AFTER
        return self._prepare_threshold

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Provide a connection for a block. A broken connection is not reused.

        Raises:
            psycopg.OperationalError: If no connection is available; with the error of the server, if it sent one.
        """
        pooled = self._check_out()
        try:
            yield pooled.connection
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
            self._check_version(pooled.connection, error)
            raise
        finally:
            self._spare.append(pooled)  # first, because Ctrl-C during anything else would lose it
            self._check_in(pooled)

    def _check_out(self) -> _PooledConnection:
        """Take a connection that works, as far as can be seen without a round trip."""
        pool = self._pool if self._pid == os.getpid() and self._pool is not None else self._open_pool()
        now = time.monotonic()
        for _ in range(2 * self._max_size):  # all may be dead, and all may be old
            pooled = self._take(pool, now)
            try:
                if pooled.pool is pool and now - pooled.since < _SPARE_SECONDS and _is_idle(pooled.connection):
                    if now - pooled.used < _FRESH_SECONDS or not _is_closed_by_server(pooled.connection):
                        return pooled
                    pooled.connection.close()
            except BaseException:
                self._spare.append(pooled)
                raise
            pooled.pool.putconn(pooled.connection)  # which renews it if it is old or closed
        return self._take(pool, now)

    def _take(self, pool: Any, now: float) -> _PooledConnection:
        """Take a spare connection, which avoids the bookkeeping of the pool, or one from the pool."""
        try:
            for pooled in iter(self._spare.pop, None):  # a loop, because Ctrl-C can interrupt after a call but not here
                return pooled
        except IndexError:
            pass  # no spare connection
        new = _PooledConnection(pool, now)
        try:
            new.connection = pool.getconn(timeout=max(_MIN_POOL_TIMEOUT, seconds_left(_POOL_TIMEOUT)))
        except psycopg_pool.PoolTimeout:
            self.connect().close()  # raises the cause: refused, wrong password, no such database
            raise
        return new

    def _check_in(self, pooled: _PooledConnection) -> None:
        """Return a connection to the pool unless it stays as a spare. If interrupted, the next `_check_out` does it."""
        if pooled.pool is self._pool and _is_idle(pooled.connection) and len(self._spare) <= _MAX_SPARE:
            pooled.used = time.monotonic()
            return
        with suppress(ValueError):  # another thread has taken it
            for _ in map(self._spare.remove, (pooled,)):  # a loop, for the reason given in `_take`
                pooled.pool.putconn(pooled.connection)  # which rolls back an interrupted transaction

    def _check_version(self, connection: Connection, error: Exception) -> None:
        """Check whether a table or column is missing because the tables have another version.

        Raises:
            SchemaError: If they have.
        """
        found, known = self._version(connection, error), max(scripts(None))
        if found != known:
            raise SchemaError(found, known) from error

    def _version(self, connection: Connection, error: Exception) -> int:
        """Return the version of the tables after an error about a missing table or column."""
        if "task_queue" in str(error).partition("\n")[0]:
            return 0
        if not connection.execute(self.sql["has_version"]).fetchall()[0][0]:
            return 0
        return connection.execute(self.sql["schema_version"]).fetchall()[0][0] or 0

    def fetch(self, name: str, values: Mapping[str, Any] | None = None, *, prepare: bool | None = None) -> Rows:
        """Run a statement by name and commit; return its rows."""
        with self.connection() as connection:
            return connection.cursor(binary=True).execute(self.sql[name], values, prepare=prepare).fetchall()

    def change(self, name: str, values: Mapping[str, Any] | None = None) -> int:
        """Run a statement by name and commit; return the number of changed rows."""
        with self.connection() as connection:
            return connection.execute(self.sql[name], values).rowcount

    def close(self) -> None:
        """Close all connections."""
        if self._pid == os.getpid() and self._pool is not None:
            pool, self._pool = self._pool, None
            with suppress(IndexError):  # raised by pop after the last one
                for pooled in iter(self._spare.pop, None):
                    pooled.pool.putconn(pooled.connection)
            pool.close()


def _parse_url(url: str) -> dict[str, Any]:
    """Return the parts of a URL. The error message does not repeat the URL, which may contain a password."""
    try:
        return psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        message = "the database URL is not a valid PostgreSQL URL; use postgresql://user@host:5432/database"
        raise ConfigError(message) from None


def _is_idle(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _is_closed_by_server(connection: Connection) -> bool:
    """Return whether the server has closed an idle connection, which makes its socket readable.

    Polling the socket costs no round trip. The pool's own check would pause between two dead connections.
    """
    pgconn = connection.pgconn
    if not _readable(pgconn.socket):
        return False
    if pgconn.ssl_in_use:  # TLS may have sent a message of its own, once
        try:
            pgconn.consume_input()
        except psycopg.OperationalError:
            return True
        return _readable(pgconn.socket)
    return True


def _readable(socket: int) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(socket, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([socket], [], [], 0)[0])
