"""Runs of batch jobs in PostgreSQL."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from outlast.forks import after_fork
from outlast.ports.job_rows import JobLock, Run, RunState, TargetDone, TargetRow, TargetStatus
from outlast.stores.postgres.connection import Connection, PostgresDatabase, in_utc
from outlast.stores.postgres.driver import psycopg
from outlast.stores.rules import latest_results, run_exists_error

# Locks on jobs in PostgreSQL: an advisory lock of a session that does nothing else, and ends with its process.
#
# Behind a pooler such as PgBouncer a session is another one with each transaction. There the lock is a transaction's,
# which stays open as long as the job runs: the session stays with it.

_MAX_NAME_BYTES = 63  # bytes of a session's name, in ASCII
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


def lock_session(db: PostgresDatabase, key: int, holder: str) -> SessionLock | None:
    """Keep a job to oneself; None if somebody else has it."""
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
        connection.execute("SET idle_session_timeout = 0")  # it is idle, and it is meant to be
    connection.execute("SELECT set_config('application_name', %s, false)", (name,))
    return bool(connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchall()[0][0])


def _lock_in_transaction(connection: Connection, key: int, name: str) -> bool:
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


_REMAINING_STATUSES = frozenset({TargetStatus.FAILED, TargetStatus.DEFERRED})
_BATCH = 2000
_dumps = json.JSONEncoder(separators=(",", ":")).encode


class PostgresJobs:
    """The duty `Jobs`. A lock is a session of its own, see `SessionLock`."""

    db: PostgresDatabase
    job_locks: list[SessionLock]

    def lock_job(self, job: str, holder: str) -> JobLock | None:
        """Keep a job to oneself; who has it is the name of the session, of which the server keeps 63 bytes."""
        lock = lock_session(self.db, self._key(job), holder)
        if lock is not None:
            self.job_locks = [*(each for each in self.job_locks if each.is_open), lock]
        return lock

    def job_holder(self, job: str) -> str | None:
        """Return who holds a job's lock."""
        rows = self.db.fetch("job_lock_holder", {"key": self._key(job)})
        return str(rows[0][0] or "") if rows else None

    def add_run(self, run_id: str, job: str, entity: str | None, env: str, parent: str | None) -> Run:
        """Begin a run."""
        values = {"id": run_id, "job": job, "entity": entity, "env": env, "parent": parent}
        rows = self.db.fetch("add_run", values)
        if not rows:
            raise run_exists_error(run_id)
        return _read_run(rows[0])

    def reopen_run(self, run_id: str) -> Run | None:
        """Have a run go on."""
        rows = self.db.fetch("reopen_run", {"id": run_id})
        return _read_run(rows[0]) if rows else None

    def end_run(self, run_id: str, state: RunState, exit_code: int, summary: dict[str, Any]) -> None:
        """End a run."""
        values = {"id": run_id, "state": str(state), "exit_code": exit_code, "summary": _dumps(summary)}
        self.db.change("end_run", values | {"total": summary.get("total_targets", 0)})

    def run(self, run_id: str) -> Run | None:
        """Return one."""
        rows = self.db.fetch("get_run", {"id": run_id})
        return _read_run(rows[0]) if rows else None

    def runs(self, job: str | None = None, limit: int = 20, before: str | None = None) -> list[Run]:
        """Return runs, newest first; planned each time, for what is not given makes another query of it."""
        values = {"job": job, "limit": limit, "before": before}
        return [_read_run(row) for row in self.db.fetch("list_runs", values, prepare=False)]

    def add_targets(self, run_id: str, targets: Sequence[TargetDone]) -> int:
        """Write what became of targets, by one statement."""
        given = _dumps([_target_record(each) for each in latest_results(targets)])
        added: int = self.db.fetch("add_targets", {"run_id": run_id, "targets": given})[0][0]
        return added

    def done_targets(self, run_id: str, source_ids: Sequence[str]) -> set[str]:
        """Return which of these targets need no more."""
        return {row[0] for row in self.db.fetch("done_targets", {"run_id": run_id, "ids": list(source_ids)})}

    def targets(
        self,
        run_id: str,
        *,
        statuses: Sequence[TargetStatus] = (),
        after: str | None = None,
        limit: int | None = None,
    ) -> list[TargetRow]:
        """Return targets of a run by their ids."""
        wanted = statuses or tuple(TargetStatus)
        filters = "list_unfinished_targets" if _REMAINING_STATUSES.issuperset(wanted) else "list_targets"
        values = {"run_id": run_id, "statuses": [str(each) for each in wanted], "after": after, "limit": limit}
        return [_read_target(row) for row in self.db.fetch(filters, values, prepare=False)]

    def target_counts(self, run_id: str) -> dict[TargetStatus, int]:
        """Return how many there are of each status."""
        rows = self.db.fetch("count_targets", {"run_id": run_id})
        return dict.fromkeys(TargetStatus, 0) | {TargetStatus(status): count for status, count in rows}

    def failure_groups(self, run_id: str, limit: int = 5) -> list[tuple[str, int, TargetRow]]:
        """Return the largest groups of failures."""
        rows = self.db.fetch("group_failed_targets", {"run_id": run_id, "limit": limit}, prepare=False)
        return [(cause, size, _read_target(row)) for cause, size, *row in rows]

    def compare_runs(self, before: str, after: str) -> dict[str, int]:
        """Return how two runs differ."""
        ((fixed, broken, still),) = self.db.fetch("compare_runs", {"before": before, "after": after}, prepare=False)
        return {"fixed": fixed, "broken": broken, "still": still}

    def prune_runs(self, older_than: float) -> int:
        """Delete runs that ended long ago, in batches of their targets; a run goes when none of them is left."""
        values: dict[str, Any] = {"seconds": float(older_than), "batch": _BATCH}
        pruned = 0
        for (run_id,) in self.db.fetch("expired_runs", values, prepare=False):
            count, last = _BATCH, None
            while count == _BATCH:
                count, last = self.db.fetch("prune_targets", values | {"id": run_id, "after": last})[0]
            pruned += self.db.change("prune_run", values | {"id": run_id})
        return pruned

    def _key(self, job: str) -> int:
        key: int = self.db.fetch("job_lock_key", {"job": job})[0][0]
        return key


def _target_record(target: TargetDone) -> dict[str, Any]:
    """Return what a target has; most of a success is not there, and need not travel."""
    return {name: value for name, value in zip(TargetDone._fields, target, strict=True) if value is not None}


def _read_run(row: Sequence[Any]) -> Run:
    run = Run._make(in_utc(row))
    summary: Any = run.summary
    return run._replace(state=RunState(run.state), summary=None if summary is None else json.loads(summary))


def _read_target(row: Sequence[Any]) -> TargetRow:
    target = TargetRow._make(in_utc(row))
    return target._replace(status=TargetStatus(target.status))
