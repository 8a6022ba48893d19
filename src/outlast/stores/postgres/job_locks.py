"""Locks on jobs in PostgreSQL: an advisory lock of a session that does nothing else, and ends with its process.

Behind a pooler such as PgBouncer a session is another one with each transaction. There the lock is a transaction's,
which stays open as long as the job runs: the session stays with it.
"""

import os
from contextlib import suppress

from outlast.forks import after_fork
from outlast.stores.postgres.connection import Connection, Database
from outlast.stores.postgres.driver import psycopg

__all__ = ["SessionLock", "lock_session"]

_NAME = 63  # bytes of a session's name, in ASCII
_HAS_IDLE_TIMEOUT = 140000
_HAS_TRANSACTION_TIMEOUT = 170000
_abandoned: list[Connection] = []  # sessions of a parent process: closing them here would end them


class SessionLock:
    """A job that nobody else runs; see `JobLock`.

    The server lets go of it when the session ends: with its process, or by an administrator, or with the server. `held`
    tells.

    Args:
        connection: Of its own; it has the lock.
        key: Number of the lock.
        holds: The query that tells whether it has.
    """

    def __init__(self, connection: Connection, key: int, holds: bytes) -> None:
        """Take the connection over."""
        self._connection: Connection | None = connection
        self._key, self._holds = key, holds
        after_fork(self.drop)

    @property
    def is_open(self) -> bool:
        """Whether it was not released yet."""
        return self._connection is not None

    def held(self) -> bool:
        """Ask the server whether the session is there and has the lock; never in a child process."""
        connection = self._connection
        if connection is None:
            return False
        try:
            return bool(connection.execute(self._holds, {"key": self._key}).fetchall()[0][0])
        except psycopg.Error:
            return False

    def release(self) -> None:
        """Let others run it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):  # the end of a session is not waited for, so the lock goes first
                if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                    connection.execute("SELECT pg_advisory_unlock(%s)", (self._key,))
                else:
                    connection.execute("ROLLBACK")
            connection.close()

    def drop(self) -> None:
        """Leave the session to the parent of this process: a copy of its socket would keep it open without it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            _abandoned.append(connection)
            with suppress(OSError, psycopg.Error):
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, connection.fileno(), inheritable=False)
                os.close(nothing)


def lock_session(db: Database, key: int, holder: str) -> SessionLock | None:
    """Keep a job to oneself; None if somebody else has it."""
    connection = db.connect()
    name = holder.encode("ascii", "replace").decode()[:_NAME]
    try:
        if _is_locked_in_transaction(connection, key, name) if db.is_pooled else _is_locked(connection, key, name):
            return SessionLock(connection, key, db.sql["holds_job_lock"])
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def _is_locked(connection: Connection, key: int, name: str) -> bool:
    if connection.info.server_version >= _HAS_IDLE_TIMEOUT:
        connection.execute("SET idle_session_timeout = 0")  # it is idle, and it is meant to be
    connection.execute("SELECT set_config('application_name', %s, false)", (name,))
    return bool(connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchall()[0][0])


def _is_locked_in_transaction(connection: Connection, key: int, name: str) -> bool:
    """Lock within a transaction and leave it open; it has no snapshot between two looks, so it holds up no vacuum.

    What is set is set for the transaction alone: others use the session after it.
    """
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY")
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    if connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
        connection.execute("SET LOCAL transaction_timeout = 0")
    connection.execute("SELECT set_config('application_name', %s, true)", (name,))
    if connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)).fetchall()[0][0]:
        return True
    connection.execute("ROLLBACK")  # a pooler throws a session away that is left in the midst of a transaction
    return False
