"""Workers in PostgreSQL, and the rescue of tasks from workers whose lease has expired."""

from outlast.errors import SchemaError
from outlast.ports.rows import Rescued, WorkerRow
from outlast.stores.postgres.connection import LATEST, PostgresDatabase
from outlast.stores.rules import worker_lost_note
from outlast.stores.shared_methods import SharedWorkers

_BATCH = 500


class PostgresWorkers(SharedWorkers):
    """Implements `Workers`."""

    db: PostgresDatabase

    def register(self, worker: WorkerRow, lease: float) -> None:
        """Add a worker."""
        values = worker._asdict() | {"queues": list(worker.queues), "lease": float(lease), "schema_version": LATEST}
        if self.db.change("add_worker", values) != 1:
            raise SchemaError(self.db.value("schema_version") or 0, LATEST)

    def leave(self, worker_id: str) -> int:
        """Remove a worker and release its tasks.

        The worker's row is deleted first because settle-and-claim locks it first. One lock order prevents deadlocks.
        """
        values = {"worker_id": worker_id, "held": []}
        with self.db.transaction() as cursor:
            cursor.change("delete_worker", values)
            count = cursor.change("reconcile", values)
            if count:
                cursor.fetch("notify")
        return count

    def rescue(self, crash_limit: int) -> list[Rescued]:
        """Take tasks from dead workers: delete the workers, then release the tasks without a worker."""
        self.db.change("delete_dead_workers")
        values = worker_lost_note()._asdict() | {"crash_limit": crash_limit, "batch": _BATCH}
        rescued: list[Rescued] = []
        while True:
            batch = self.db.fetch("rescue", values)
            rescued += [Rescued(*row) for row in batch]
            if len(batch) < _BATCH:
                break
        if rescued:
            self.db.notify()
        return rescued
