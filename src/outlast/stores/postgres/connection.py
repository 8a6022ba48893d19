"""A PostgreSQL database as a process uses it: a pool of connections, opened when it is first needed.

Connections commit every statement by themselves; what takes several is a transaction by name.
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

# Times as this store returns them: a session's time zone is its own affair, ours is UTC.


def in_utc(row: Sequence[Any]) -> list[Any]:
    """Return a row with its times in UTC."""
    return [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]


# Whether a pooler such as PgBouncer stands before the server: then a session may be another one with each transaction.
#
# It says nothing about itself, and so it is recognised by what it does.

_AnyConnection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
_POOLER_ROUNDS = 5  # on a busy pool somebody else may be in between


def is_behind_pooler(connection: _AnyConnection) -> bool:
    """Tell whether we talk to a pooler: it gives each client a number of its own, by which it may cancel a query."""
    return connection.info.backend_pid != _server_process(connection)


def keeps_sessions(connection: _AnyConnection, another: AbstractContextManager[_AnyConnection]) -> bool:
    """Tell whether a pooler keeps a session for each client, as far as that can be seen.

    While another client is in a transaction it has a session to itself. If that was ours, or if we get another one
    then, sessions are given to whoever needs one.

    Args:
        connection: Ours.
        another: Lends a second one.
    """
    ours = _server_process(connection)
    with another as other:
        for _ in range(_POOLER_ROUNDS):
            with other.transaction():
                if _server_process(other) == ours or _server_process(connection) != ours:
                    return False
    return True


def _server_process(connection: _AnyConnection) -> int:
    number: int = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchall()[0][0]
    return number


Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Rows: TypeAlias = list[tuple[Any, ...]]
Threshold: TypeAlias = int | Literal["auto"] | None

_POOL_TIMEOUT = 10.0
"""Seconds to wait for a connection before it is an error."""
_MIN_POOL_TIMEOUT = 0.05
"""Seconds, however little time is left: one that is free is had at once."""
_DEFAULT_PARAMETERS = {
    "connect_timeout": "10",
    "fallback_application_name": "outlast",
    "client_encoding": "UTF8",
    # a peer that vanished without a word is noticed within half a minute, not after hours
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_PREPARED_AFTER = 5
"""Runs of a statement after which it is prepared, where nobody says otherwise."""
_MAX_SPARE = 4
"""Connections that are not handed back to the pool after every use."""
_SPARE_SECONDS = 300.0
"""Seconds after which they are, for a while."""
_FRESH_SECONDS = 0.02
"""Seconds for which a connection that did its work needs no look whether it still stands."""
_abandoned: list[Any] = []  # pools of a parent process: closing them here would end the parent's sessions


class _Loan:
    """A connection of the pool while it is ours.

    Attributes:
        connection: The connection.
        pool: Whose it is.
        since: When we had it from the pool.
        used: When it was used last; long ago for one that comes from the pool.
    """

    __slots__ = ("connection", "pool", "since", "used")
    connection: Connection

    def __init__(self, pool: Any, since: float) -> None:
        self.pool, self.since, self.used = pool, since, -math.inf


class PostgresDatabase:
    """A PostgreSQL database.

    Args:
        url: ``postgresql://…``, or libpq's keywords.
        schema: Where the tables are; None for the first that the search path finds.
        min_size: Connections that are kept open.
        max_size: Connections at most.
        prepare_threshold: After so many runs a statement is prepared; None for never. By ``"auto"`` after 5, and never
            behind a pooler.
        pooled: Whether a pooler stands before the server; None to find it out.
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
        """Check what can be checked without connecting."""
        self.sql = statements(schema)
        self.schema = schema
        self._parameters = _DEFAULT_PARAMETERS | _parse_url(url)
        self._min_size, self._max_size = min_size, max_size
        self._prepare_threshold = prepare_threshold
        self._pooled = pooled
        self._forget()

    def _forget(self) -> None:
        """Begin without a pool: at first, and in a child process, where the parent's must not be used."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pool: Any = None
        self._spare: deque[_Loan] = deque()

    def _opened(self) -> Any:
        if self._pid != os.getpid():
            _abandoned.extend((self._pool, self._spare))
            self._forget()
        with self._lock:
            if self._pool is None:
                self.connect().close()  # a wrong password is an error at once; the pool would try on
                self._pool = psycopg_pool.ConnectionPool(
                    "",
                    min_size=self._min_size,
                    max_size=self._max_size,
                    kwargs={**self._parameters, "autocommit": True, "prepare_threshold": self._threshold},
                    name="outlast",
                    timeout=_POOL_TIMEOUT,
                    reconnect_timeout=2.0,  # its pauses grow; a new try at the next call finds the server sooner
                    open=True,
                )
            return self._pool

    def connect(self) -> Connection:
        """Open a connection beside the pool, for whoever keeps it."""
        left = seconds_left(math.inf)
        hurry = {} if left == math.inf else {"connect_timeout": str(max(2, math.ceil(left)))}  # libpq knows no less
        connection = psycopg.connect("", **(self._parameters | hurry), autocommit=True, prepare_threshold=None)
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
        """Whether a pooler stands before the server, as somebody said or the first connection has shown."""
        return bool(self._pooled)

    @property
    def _threshold(self) -> int | None:
        if self._prepare_threshold == "auto":
            return None if self._pooled else _PREPARED_AFTER
        return self._prepare_threshold

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection; one that broke is not lent again.

        Raises:
            psycopg.OperationalError: If there is none: what the server says, where it says something.
        """
        loan = self._lend()
        try:
            yield loan.connection
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
            self._check_version(loan.connection, error)
            raise
        finally:
            self._spare.append(loan)  # before anything that Ctrl-C could interrupt, which would lose it
            self._tidy(loan)

    def _lend(self) -> _Loan:
        """Take a connection that stands, as far as can be seen without a round trip."""
        pool = self._pool if self._pid == os.getpid() and self._pool is not None else self._opened()
        now = time.monotonic()
        for _ in range(2 * self._max_size):  # all may have died together, and be old beside
            loan = self._taken(pool, now)
            try:
                if loan.pool is pool and now - loan.since < _SPARE_SECONDS and _is_idle(loan.connection):
                    if now - loan.used < _FRESH_SECONDS or not _is_closed_by_server(loan.connection):
                        return loan
                    loan.connection.close()
            except BaseException:
                self._spare.append(loan)
                raise
            loan.pool.putconn(loan.connection)  # which renews it when it is old or closed
        return self._taken(pool, now)

    def _taken(self, pool: Any, now: float) -> _Loan:
        """Take a connection; one of the last used spares the pool its bookkeeping."""
        try:
            for loan in iter(self._spare.pop, None):  # Ctrl-C comes in after a call, but not within a step of a loop
                return loan
        except IndexError:
            pass  # there is none
        new = _Loan(pool, now)
        try:
            new.connection = pool.getconn(timeout=max(_MIN_POOL_TIMEOUT, seconds_left(_POOL_TIMEOUT)))
        except psycopg_pool.PoolTimeout:
            self.connect().close()  # tells why: refused, wrong password, no such database
            raise
        return new

    def _tidy(self, loan: _Loan) -> None:
        """Give a connection back that is not to be kept. If that is interrupted, the next who takes it does it."""
        if loan.pool is self._pool and _is_idle(loan.connection) and len(self._spare) <= _MAX_SPARE:
            loan.used = time.monotonic()
            return
        with suppress(ValueError):  # somebody has taken it
            for _ in map(self._spare.remove, (loan,)):  # a loop for the same reason
                loan.pool.putconn(loan.connection)  # which ends what an interruption may have left open

    def _check_version(self, connection: Connection, error: Exception) -> None:
        """See whether something is missing because the tables are of another version.

        Raises:
            SchemaError: If they are.
        """
        found, known = self._version(connection, error), max(scripts(None))
        if found != known:
            raise SchemaError(found, known) from error

    def _version(self, connection: Connection, error: Exception) -> int:
        """Return the version of tables in which something is missing."""
        if "task_queue" in str(error).partition("\n")[0]:
            return 0
        if not connection.execute(self.sql["has_version"]).fetchall()[0][0]:
            return 0
        return connection.execute(self.sql["schema_version"]).fetchall()[0][0] or 0

    def fetch(self, name: str, values: Mapping[str, Any] | None = None, *, prepare: bool | None = None) -> Rows:
        """Run a query by its name, committed at once; return its rows."""
        with self.connection() as connection:
            return connection.cursor(binary=True).execute(self.sql[name], values, prepare=prepare).fetchall()

    def change(self, name: str, values: Mapping[str, Any] | None = None) -> int:
        """Run a statement by its name, committed at once; return how many rows it changed."""
        with self.connection() as connection:
            return connection.execute(self.sql[name], values).rowcount

    def close(self) -> None:
        """Close the connections."""
        if self._pid == os.getpid() and self._pool is not None:
            pool, self._pool = self._pool, None
            with suppress(IndexError):  # until there is none
                for loan in iter(self._spare.pop, None):
                    loan.pool.putconn(loan.connection)
            pool.close()


def _parse_url(url: str) -> dict[str, Any]:
    """Return a URL's parts; what is said of a wrong one does not repeat it, for there may be a password in it."""
    try:
        return psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        message = "the URL of the database is not one that PostgreSQL understands: postgresql://user@host:5432/database"
        raise ConfigError(message) from None


def _is_idle(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _is_closed_by_server(connection: Connection) -> bool:
    """Tell whether the server has ended an idle connection: then there is something to read, a farewell or the end.

    Looking at the socket costs no round trip. The pool's own check would pause between two dead connections.
    """
    pgconn = connection.pgconn
    if not _readable(pgconn.socket):
        return False
    if pgconn.ssl_in_use:  # the encryption may have had something to say, once
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
