"""The store in a SQLite file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from outlast.ports.rows import Enqueued, NewTask
from outlast.stores.sqlite.alerts import SqliteAlerts
from outlast.stores.sqlite.connection import SqliteDatabase
from outlast.stores.sqlite.counters import SqliteCounters
from outlast.stores.sqlite.dead_letters import SqliteDeadLetters
from outlast.stores.sqlite.external_attempts import SqliteEngineTasks
from outlast.stores.sqlite.flow_control import SqliteFlowControl
from outlast.stores.sqlite.jobs import SqliteJobs
from outlast.stores.sqlite.reads import SqliteReads
from outlast.stores.sqlite.schema import SqliteSchema, prepare_schema
from outlast.stores.sqlite.sources import SqliteSources
from outlast.stores.sqlite.tasks import SqliteTasks
from outlast.stores.sqlite.workers import SqliteWorkers


class SqliteStore(
    SqliteTasks,
    SqliteEngineTasks,
    SqliteWorkers,
    SqliteAlerts,
    SqliteJobs,
    SqliteSchema,
    SqliteFlowControl,
    SqliteDeadLetters,
    SqliteSources,
    SqliteReads,
    SqliteCounters,
):
    """All protocols in one file, which the processes of one machine can share.

    Args:
        path: Path of the file. The file and its tables are created on first use.
        synchronous: ``FULL`` survives a power cut; ``NORMAL`` may lose the last transactions.
    """

    poll = 0.05
    """Seconds between two polls of an idle worker; other processes cannot wake it."""
    rescue_every = 1.0
    """Seconds between two searches for dead workers, whose locks are free at once."""
    in_process = False
    """Whether other processes cannot see the data."""
    db: SqliteDatabase
    _database = SqliteDatabase

    def __init__(self, path: str | Path, synchronous: str = "FULL") -> None:
        self.db = self._database(path, prepare_schema, synchronous)
        self.location = f"sqlite:///{self.db.path}"
        self.held_locks: dict[str, IO[bytes]] = {}
        self.job_locks = []
        self._wakes: tuple[Callable[[], None], ...] = ()

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks and wake the workers of this process; those of other processes poll."""
        added = super().enqueue(tasks, connection)
        for wake in self._wakes:
            wake()
        return added

    def close(self) -> None:
        """Close the file and release all locks. Other processes then see workers that did not leave as dead."""
        self.db.close()
        while self.job_locks:
            self.job_locks.pop().release()
        while self.held_locks:
            self.held_locks.popitem()[1].close()

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function when this process has enqueued tasks; return a function that ends this."""
        self._wakes = (*self._wakes, wake)

        def end() -> None:
            self._wakes = tuple(each for each in self._wakes if each is not wake)

        return end
