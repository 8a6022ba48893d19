"""A PostgreSQL database in a process: a connection pool that opens on first use.

Connections are in autocommit mode; several statements need an explicit transaction.
"""

import atexit
import json
import logging
import math
import os
import select
import threading
import time
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from outlast.errors import ConfigError, SchemaError
from outlast.ports.store import seconds_left
from outlast.redact import redact
from outlast.stores.postgres.driver import psycopg, psycopg_pool
from outlast.stores.postgres.sql import DEFAULT_SCHEMA, scripts, statements, tables_until
from outlast.stores.row_reader import RowReader
from outlast.stores.shared_methods import Statements, Values

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Threshold: TypeAlias = int | Literal["auto"] | None


def in_utc(time: datetime) -> datetime:
    """Return a time in UTC; the server returns it in the time zone of the session."""
    return time.astimezone(UTC)


read_row = RowReader(in_utc)
dumps = json.JSONEncoder(separators=(",", ":"), default=datetime.isoformat).encode
_ALWAYS_PREPARED = frozenset({"settle_and_claim", "add_plain_task", "add_task_without_notify"})
_NEVER_PREPARED = (
    "add_due_sources",
    "compare_runs",
    "count_dead_letters",
    "count_matching",
    "count_sources",
    "counts_and_rows",
    "dead_letters",
    "expired_runs",
    "find_tasks",
    "group_",
    "list_",
    "live_slots",
    "next_matching",
    "overdue_alerts",
    "prune_tasks",
    "replay_dead_letters",
    "rescue",
    "unannounced_groups",
)
"""How the names of statements begin that are planned each time: a plan for other filters would be slow."""


class PostgresCursor(Statements):
    """Runs statements by name on one connection, in its open transaction if there is one.

    Rows are tuples, whatever row factory a caller's connection has.
    """

    read_row = read_row

    def __init__(self, connection: Connection, sql: dict[str, bytes]) -> None:
        self.connection, self.sql = connection, sql
        self.cursor = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
        self.cursor.format = psycopg.pq.Format.BINARY

    def fetch(self, name: str, values: Any = None) -> list[Any]:
        """Run a statement; return its rows."""
        return self._execute(name, values).fetchall()

    def change(self, name: str, values: Any = None) -> int:
        """Run a statement; return the number of changed rows."""
        return self._execute(name, values).rowcount

    def _execute(self, name: str, values: Any) -> "psycopg.Cursor[tuple[Any, ...]]":
        prepare = name in _ALWAYS_PREPARED or (False if name.startswith(_NEVER_PREPARED) else None)
        return self.cursor.execute(self.sql[name], values, prepare=prepare)


def schema_version(db: Statements) -> int:
    """Return the version of the tables; 0 if there are none."""
    return (db.value("schema_version") or 0) if db.value("has_version") else 0


LATEST = max(scripts(DEFAULT_SCHEMA))
_MOVE_ADVICE = """\
the schema outlast has no Outlast tables, but {schema} has them; they are not moved automatically.
To keep them there, add ?schema={schema} to the database URL.
To move them, stop all workers, run this as their owner, and grant other roles USAGE on the schema outlast:
BEGIN;
CREATE SCHEMA IF NOT EXISTS outlast;
{statements}
COMMIT;"""


def find_schema(db: Statements) -> str | None:
    """Return the schema of the tables: ``outlast``, or the first one in the search path that has them."""
    found: list[str] = db.column("find_schema")
    return found[0] if found else None


def raise_if_elsewhere(cursor: PostgresCursor) -> None:
    """Check that no tables exist in the search path; for a database that has none in the default schema.

    Raises:
        SchemaError: If they do. It names the statements that move them.
    """
    schema = find_schema(cursor)
    if schema is not None and schema != DEFAULT_SCHEMA:
        query = psycopg.sql.SQL("SELECT max(version) FROM {}").format(psycopg.sql.Identifier(schema, "schema_version"))
        version = cursor.connection.execute(query).fetchall()[0][0] or 0
        moves = cursor.column(
            "move_statements", {"schema": schema, "tables": ["schema_version", "outlast_move", *tables_until(version)]}
        )
        raise SchemaError(0, LATEST, _MOVE_ADVICE.format(schema=schema, statements="\n".join(moves)))


class PostgresStatements(Statements):
    """Runs statements by name, each as a transaction of its own, or several in one transaction."""

    read_row = read_row
    sql: dict[str, bytes]

    @abstractmethod
    def connection(self) -> AbstractContextManager[Connection]:
        """Provide a connection for a block."""

    @contextmanager
    def transaction(self) -> Iterator[PostgresCursor]:
        """Run a block in a transaction."""
        with self.connection() as connection, connection.transaction():
            yield PostgresCursor(connection, self.sql)

    def fetch(self, name: str, values: Values = None) -> list[Any]:
        """Run a statement by name and commit; return its rows."""
        with self.connection() as connection:
            return PostgresCursor(connection, self.sql).fetch(name, values)

    def change(self, name: str, values: Values = None) -> int:
        """Run a statement by name and commit; return the number of changed rows."""
        with self.connection() as connection:
            return PostgresCursor(connection, self.sql).change(name, values)

    def notify(self) -> None:
        """Wake idle workers."""
        self.fetch("notify")


# A pooler such as PgBouncer may use another session for each transaction. It does not identify itself, so it is
# recognised by its behaviour.
_POOLER_ROUNDS = 5  # on a busy pool, other clients may interfere


def is_behind_pooler(connection: Connection) -> bool:
    """Return whether the connection goes to a pooler, which gives each client its own backend number."""
    return connection.info.backend_pid != _server_process(connection)


def keeps_sessions(connection: Connection, another: AbstractContextManager[Connection]) -> bool:
    """Return whether a pooler keeps one session per client, as far as that can be detected.

    Another client in a transaction has a session to itself. If that session was ours, or if we get another one then or
    afterwards, the pooler shares sessions. PgBouncer gives out first what was returned last.

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
            if _server_process(connection) != ours:
                return False
    return True


def _server_process(connection: Connection) -> int:
    number: int = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchall()[0][0]
    return number


_EXIT_TIMEOUT = 1.0  # seconds that the end of a process waits for the threads of the pool
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
_POOL_NAME = "outlast"
_databases: "weakref.WeakSet[PostgresDatabase]" = weakref.WeakSet()
_abandoned: list[Any] = []  # pools of a parent process; closing them here would end the parent's sessions


@dataclass(slots=True, eq=False)
class _PooledConnection:
    """A connection taken from the pool.

    Attributes:
        connection: The connection.
        pool: Its pool.
        since: When it was taken from the pool.
        used: When it was last used; minus infinity for a new one.
    """

    pool: Any
    since: float
    used: float = -math.inf
    connection: Connection = field(init=False)


def _is_pool_record_wanted(record: logging.LogRecord) -> bool:
    """Drop the log records of our pools while a database is down: its callers have the error and report it."""
    is_ours = str(record.threadName).startswith(_POOL_NAME) or _POOL_NAME in (record.args or ())
    return not (is_ours and any(each.is_down for each in list(_databases)))


logging.getLogger("psycopg.pool").addFilter(_is_pool_record_wanted)


class PostgresDatabase(PostgresStatements):
    """A PostgreSQL database.

    Args:
        url: ``postgresql://…``, or libpq keywords.
        schema: Schema of the tables; None for the one in the URL, ``?schema=…``, or else ``outlast``.
        min_size: Connections that are kept open.
        max_size: Maximum number of connections.
        prepare_threshold: Number of executions after which a statement is prepared; None for never. ``"auto"`` means 5,
            or never behind a pooler.
        pooled: Whether a pooler may switch sessions between transactions; None to detect it.

    Attributes:
        is_down: Whether the last use of a connection failed because the server is not available.
    """

    def __init__(
        self,
        url: str,
        schema: str | None,
        min_size: int,
        max_size: int,
        prepare_threshold: Threshold,
        *,
        pooled: bool | None,
    ) -> None:
        url, url_schema = _cut_schema(url)
        chosen = url_schema if schema is None else schema
        self.has_default_schema = chosen is None
        self.schema = DEFAULT_SCHEMA if chosen is None else chosen
        self.sql = statements(self.schema)
        self._parameters = _DEFAULT_PARAMETERS | _parse_url(url)
        self._min_size, self._max_size = min_size, max_size
        self._prepare_threshold = prepare_threshold
        self._pooled = pooled
        self.is_down = False
        _databases.add(self)
        self._reset()

    def location(self) -> str:
        """Return the URL of the tables, without user and password."""
        server = ":".join(str(self._parameters[key]) for key in ("host", "port") if self._parameters.get(key))
        schema = "" if self.schema == DEFAULT_SCHEMA else f"?schema={self.schema}"
        return redact(f"postgresql://{server}/{self._parameters.get('dbname', '')}{schema}")

    def _reset(self) -> None:
        """Start without a pool: initially, and in a child process, which must not use that of its parent."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pool: Any = None
        self._spare: deque[_PooledConnection] = deque()
        self._waiting: dict[_PooledConnection, None] = {}  # for threads that wait for the pool

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
                    name=_POOL_NAME,
                    timeout=_POOL_TIMEOUT,
                    reconnect_timeout=2.0,  # its pauses grow, so a new attempt at the next call finds the server sooner
                    open=True,
                )
                atexit.register(_close_at_exit, weakref.ref(self._pool), self._pid)
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
        try:
            pooled = self._check_out()
        except psycopg.OperationalError:
            self.is_down = True
            raise
        try:
            yield pooled.connection
            self.is_down = False
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
            self._check_version(pooled.connection, error)
            raise
        except psycopg.OperationalError:
            self.is_down = pooled.connection.closed
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
        self._waiting[new] = None  # from now on, other threads return their connections to the pool
        try:
            self._return_spare()
            new.connection = pool.getconn(timeout=max(_MIN_POOL_TIMEOUT, seconds_left(_POOL_TIMEOUT)))
        except psycopg_pool.PoolTimeout:
            self.connect().close()  # raises the cause: refused, wrong password, no such database
            raise
        finally:
            del self._waiting[new]  # a statement, because Ctrl-C can interrupt after a call but not here
        return new

    def _check_in(self, pooled: _PooledConnection) -> None:
        """Return a connection to the pool unless it stays as a spare. If interrupted, the next `_check_out` does it."""
        may_stay = not self._waiting and len(self._spare) <= _MAX_SPARE
        if may_stay and pooled.pool is self._pool and _is_idle(pooled.connection):
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
        cursor, has_tables = PostgresCursor(connection, self.sql), "task_queue" not in str(error).partition("\n")[0]
        found = schema_version(cursor) if has_tables else 0
        if found == 0 and self.has_default_schema:
            raise_if_elsewhere(cursor)
        if found != LATEST:
            raise SchemaError(found, LATEST) from error

    def close(self) -> None:
        """Close all connections."""
        if self._pid == os.getpid() and self._pool is not None:
            pool, self._pool = self._pool, None
            self._return_spare()
            pool.close()

    def _return_spare(self) -> None:
        with suppress(IndexError):  # raised by pop after the last one
            for pooled in iter(self._spare.pop, None):
                pooled.pool.putconn(pooled.connection)


def _close_at_exit(pool_ref: "weakref.ref[Any]", pid: int) -> None:
    """Close a pool when its process ends: on Python 3.13 its threads would hold up the end for 20 s."""
    pool = pool_ref()
    if pool is not None and pid == os.getpid():
        pool.close(timeout=_EXIT_TIMEOUT)


def _parse_url(url: str) -> dict[str, Any]:
    """Return the parts of a URL. The error message does not repeat the URL, which may contain a password."""
    try:
        return psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise ConfigError(
            "the database URL is not a valid PostgreSQL URL; use postgresql://user@host:5432/database"
        ) from None


def _cut_schema(url: str) -> tuple[str, str | None]:
    """Return a URL without ``schema=…``, which libpq refuses, and the schema."""
    base, mark, query = url.rpartition("?") if "://" in url else (url, "", "")
    pairs = query.split("&")
    schemas = [pair.removeprefix("schema=") for pair in pairs if pair.startswith("schema=")]
    if not mark or not schemas:
        return url, None
    rest = "&".join(pair for pair in pairs if not pair.startswith("schema="))
    return f"{base}?{rest}" if rest else base, unquote(schemas[-1])


def _is_idle(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _is_closed_by_server(connection: Connection) -> bool:
    """Return whether the server has closed an idle connection, which makes its socket readable.

    Polling the socket costs no round trip. The pool's own check would pause between two dead connections.
    """
    pgconn = connection.pgconn
    if not wait_readable(pgconn.socket, timeout=0):
        return False
    if pgconn.ssl_in_use:  # TLS may have sent a message of its own, once
        try:
            pgconn.consume_input()
        except psycopg.OperationalError:
            return True
        return wait_readable(pgconn.socket, timeout=0)
    return True


def wait_readable(*files: int, timeout: int | None = None) -> bool:
    """Wait until one of these file descriptors is readable, or not at all if `timeout` is 0; return whether one is."""
    if not hasattr(select, "poll"):
        return bool(select.select(files, [], [], timeout)[0])
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return bool(poll.poll(timeout))
