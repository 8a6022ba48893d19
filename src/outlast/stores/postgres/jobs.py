"""Runs of batch jobs, their targets and their locks in PostgreSQL.

A job lock is an advisory lock of a dedicated session, which ends with its process. Behind a pooler such as PgBouncer,
which may use another session for each transaction, the lock belongs to a transaction that stays open while the job
runs.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from outlast.forks import after_fork
from outlast.ports.job_rows import JobLock, Run, RunState, TargetDone
from outlast.ports.source_rows import NewAlert
from outlast.stores.postgres.alerts import raise_alerts_in
from outlast.stores.postgres.connection import Connection, PostgresDatabase, dumps
from outlast.stores.postgres.driver import psycopg
from outlast.stores.rules import latest_results
from outlast.stores.shared_methods import SharedJobs

_MAX_NAME_BYTES = 63  # limit of application_name
_HAS_IDLE_TIMEOUT = 140000
_HAS_TRANSACTION_TIMEOUT = 170000
_abandoned: list[Connection] = []  # sessions of a parent process; closing them here would end them


class SessionLock:
    """A lock on a job; see `JobLock`.

    The server releases it when the session ends: with its process, by an administrator or with the server. `held`
    detects this.

    Args:
        connection: A dedicated connection that holds the lock.
        key: Key of the advisory lock.
        holds: Statement that returns whether the session holds it.
    """

    def __init__(self, connection: Connection, key: int, holds: bytes) -> None:
        self._connection: Connection | None = connection
        self._key, self._holds = key, holds
        after_fork(self.drop)

    @property
    def is_open(self) -> bool:
        """Whether it has not been released."""
        return self._connection is not None

    def held(self) -> bool:
        """Ask the server whether the session exists and holds the lock; never true in a child process."""
        connection = self._connection
        if connection is None:
            return False
        try:
            return bool(connection.execute(self._holds, {"key": self._key}).fetchall()[0][0])
        except psycopg.Error:
            return False

    def release(self) -> None:
        """Release the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):  # closing does not wait for the end of the session, so unlock first
                if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                    connection.execute("SELECT pg_advisory_unlock(%s)", (self._key,))
                else:
                    connection.execute("ROLLBACK")
            connection.close()

    def drop(self) -> None:
        """Leave the session to the parent process: an inherited socket would keep it open after the parent has died."""
        connection, self._connection = self._connection, None
        if connection is not None:
            _abandoned.append(connection)
            with suppress(OSError, psycopg.Error):
                devnull = os.open(os.devnull, os.O_RDWR)
                os.dup2(devnull, connection.fileno(), inheritable=False)
                os.close(devnull)


def lock_session(db: PostgresDatabase, key: int, holder: str) -> SessionLock | None:
    """Lock a job; return None if somebody else holds the lock."""
    connection = db.connect()
    name = holder.encode("ascii", "replace").decode()[:_MAX_NAME_BYTES]
    try:
        if _lock_in_transaction(connection, key, name) if db.is_pooled else _lock_in_session(connection, key, name):
            return SessionLock(connection, key, db.sql["holds_job_lock"])
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def _lock_in_session(connection: Connection, key: int, name: str) -> bool:
    if connection.info.server_version >= _HAS_IDLE_TIMEOUT:
        connection.execute("SET idle_session_timeout = 0")  # the session is idle while the job runs
    connection.execute("SELECT set_config('application_name', %s, false)", (name,))
    return bool(connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchall()[0][0])


def _lock_in_transaction(connection: Connection, key: int, name: str) -> bool:
    """Take the lock in a transaction and leave the transaction open.

    The transaction holds no snapshot between statements, so it does not block VACUUM. Settings are local to the
    transaction, because other clients use the session afterwards.
    """
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY")
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    if connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
        connection.execute("SET LOCAL transaction_timeout = 0")
    connection.execute("SELECT set_config('application_name', %s, true)", (name,))
    if connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)).fetchall()[0][0]:
        return True
    connection.execute("ROLLBACK")  # a pooler discards a session that is left in a transaction
    return False


_BATCH = 2000


class PostgresJobs(SharedJobs):
    """Implements `Jobs`. A lock is a dedicated session, see `SessionLock`."""

    db: PostgresDatabase
    job_locks: list[SessionLock]

    def lock_job(self, job: str, holder: str) -> JobLock | None:
        """Lock a job. The holder becomes the application_name of the session, of which the server keeps 63 bytes."""
        lock = lock_session(self.db, self._key(job), holder)
        if lock is not None:
            self.job_locks = [*(each for each in self.job_locks if each.is_open), lock]
        return lock

    def job_holder(self, job: str) -> str | None:
        """Return who holds the lock of a job."""
        rows = self.db.fetch("job_lock_holder", {"key": self._key(job)})
        return str(rows[0][0] or "") if rows else None

    def end_run(
        self, run_id: str, state: RunState, exit_code: int, summary: dict[str, Any], alerts: Sequence[NewAlert] = ()
    ) -> None:
        """End a run, and raise alerts about it."""
        values = {"id": run_id, "state": str(state), "exit_code": exit_code, "summary": dumps(summary)}
        with self.db.transaction() as cursor:
            cursor.change("end_run", values | {"total": summary.get("total_targets", 0)})
            raise_alerts_in(cursor, alerts)

    def runs(self, job: str | None = None, limit: int = 20, before: str | None = None) -> list[Run]:
        """Return runs, newest first."""
        return self.db.select(Run, "list_runs", {"job": job, "limit": limit, "before": before})

    def add_targets(self, run_id: str, targets: Sequence[TargetDone]) -> int:
        """Save results of targets, in one statement."""
        records = dumps([_target_record(each) for each in latest_results(targets)])
        return int(self.db.value("add_targets", {"run_id": run_id, "targets": records}))

    def prune_runs(self, older_than: float) -> int:
        """Delete old runs and their targets in batches. A run is deleted once it has no targets left."""
        values: dict[str, Any] = {"seconds": float(older_than), "batch": _BATCH}
        pruned = 0
        for (run_id,) in self.db.fetch("expired_runs", values):
            count, last = _BATCH, None
            while count == _BATCH:
                count, last = self.db.fetch("prune_targets", values | {"id": run_id, "after": last})[0]
            pruned += self.db.change("prune_run", values | {"id": run_id})
        return pruned

    def _key(self, job: str) -> int:
        return int(self.db.value("job_lock_key", {"job": job}))


def _target_record(target: TargetDone) -> dict[str, Any]:
    """Return the fields of a target that are set; most fields of a success are not."""
    return {name: value for name, value in zip(TargetDone._fields, target, strict=True) if value is not None}
