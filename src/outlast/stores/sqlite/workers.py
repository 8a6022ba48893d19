"""Workers in SQLite, and the rescue of tasks from dead workers."""

import json
from pathlib import Path
from sqlite3 import Connection
from typing import IO

from outlast.errors import SchemaError
from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import Reason, Rescued, WorkerRow
from outlast.stores.counters import CounterDelta
from outlast.stores.rules import worker_lost_note
from outlast.stores.shared_methods import SharedWorkers
from outlast.stores.sqlite.connection import SqliteDatabase, execute, milliseconds, now_ms
from outlast.stores.sqlite.counters import write_delta
from outlast.stores.sqlite.file_locks import hold_worker_lock, is_worker_lock_free
from outlast.stores.sqlite.schema import LATEST, schema_version

_BATCH = 500


class SqliteWorkers(SharedWorkers):
    """Implements `Workers`. A dead worker is detected at once, because the lock on its file is free."""

    db: SqliteDatabase
    held_locks: dict[str, IO[bytes]]

    def register(self, worker: WorkerRow, lease: float) -> None:
        """Add a worker. Its lock is held before anybody can look for it.

        A worker that lost its lease because of a migration cannot register again: its tables have another version.
        """
        self.held_locks[worker.id] = hold_worker_lock(self._lock_file(worker.id))
        now = now_ms()
        values = worker._asdict() | {"queues": json.dumps(worker.queues), "now": now, "schema_version": LATEST}
        values |= {"started_at": now, "heartbeat_at": now, "expires_at": now + milliseconds(lease)}

        def work(connection: Connection) -> None:
            if (found := schema_version(connection)) != LATEST:
                raise SchemaError(found, LATEST)
            execute(connection, "add_worker", values)

        try:
            self.db.write(work)
        except BaseException:
            self._unlock(worker.id)
            raise

    def leave(self, worker_id: str) -> int:
        """Remove a worker and release its tasks."""
        values = {"worker_id": worker_id, "held": "[]", "now": now_ms()}

        def work(connection: Connection) -> int:
            count = execute(connection, "reconcile", values).rowcount
            execute(connection, "delete_worker", values)
            return count

        count = self.db.write(work)
        self._unlock(worker_id)
        return count

    def _unlock(self, worker_id: str) -> None:
        lock = self.held_locks.pop(worker_id, None)
        if lock is not None:
            lock.close()
            self._lock_file(worker_id).unlink(missing_ok=True)

    def rescue(self, crash_limit: int) -> list[Rescued]:
        """Take tasks from dead workers: delete the workers, then release the tasks without a worker."""
        now = now_ms()
        known = self.db.fetch("worker_leases")
        dead = [name for name, _ in known if self.is_dead(name)]
        if dead or any(expiry <= now for _, expiry in known):
            for (worker_id,) in self.db.fetch_changed("delete_dead_workers", {"dead": dead, "now": now}):
                self._lock_file(worker_id).unlink(missing_ok=True)
        if not self.db.value("has_orphans"):
            return []
        rescued: list[Rescued] = []
        while True:
            batch = self.db.write(lambda connection: _rescue_batch(connection, now_ms(), crash_limit))
            rescued += batch
            if len(batch) < _BATCH:
                return rescued

    def is_dead(self, worker_id: str) -> bool:
        """Return whether a worker of this machine is known to have died, whatever its lease says."""
        return is_worker_lock_free(self._lock_file(worker_id))

    def _lock_file(self, worker_id: str) -> Path:
        return self.db.path.with_name(f"{self.db.path.name}-workers") / worker_id


def _rescue_batch(connection: Connection, now: int, crash_limit: int) -> list[Rescued]:
    """Release a batch of tasks whose worker is not registered."""
    rescued, delta = [], CounterDelta()
    for row in execute(connection, "orphans", {"batch": _BATCH}).fetchall():
        task_id, epoch, worker_id, attempt, started_at, counted, before, canary, task_type = row
        crashes = before + counted
        values = {"id": task_id, "epoch": epoch, "now": now, "crash_count": crashes}
        if started_at is None:
            execute(connection, "rescue_not_started", values)
            rescued.append(Rescued(task_id, worker_id or "", "unspent"))
            continue
        note = worker_lost_note()
        history = {"task_id": task_id, "attempt": attempt, "worker_id": worker_id, "started_at": started_at, "now": now}
        execute(connection, "add_attempt", history | {"outcome": "lost", "delay": None} | note._asdict())
        dead = crashes >= crash_limit or (counted and canary)  # a canary gets a single attempt
        delta.failure(FlowEvent.FAILED if dead else FlowEvent.LOST, task_type, note)
        execute(connection, "rescue_failed" if dead else "rescue_suspect", values | {"error": note.error_message})
        if dead:
            dead_letter = {"id": task_id, "now": now, "reason": str(Reason.CANARY if canary else Reason.CRASH)}
            execute(connection, "add_dead_letter", dead_letter | note._asdict())
        rescued.append(Rescued(task_id, worker_id or "", "dead" if dead else "suspect"))
    write_delta(connection, delta, now)
    return rescued
