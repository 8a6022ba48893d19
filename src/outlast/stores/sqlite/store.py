"""The store in a SQLite file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from outlast.ports.rows import Enqueued, NewTask
from outlast.stores.sqlite.alerts import SqliteAlerts
from outlast.stores.sqlite.connection import SqliteDatabase
from outlast.stores.sqlite.counters import SqliteCounterRepair, SqliteRollup
from outlast.stores.sqlite.dead_letters import SqliteDeadLetters, SqliteReplays, SqliteTriage
from outlast.stores.sqlite.flow_control import (
    SqliteBreakers,
    SqliteCooldowns,
    SqliteLimits,
    SqlitePeriodic,
    SqliteQueues,
)
from outlast.stores.sqlite.jobs import SqliteJobs
from outlast.stores.sqlite.reads import SqliteLists, SqliteReads
from outlast.stores.sqlite.schema import SqliteSchema, prepare_schema
from outlast.stores.sqlite.sources import SqliteCycles, SqliteSources
from outlast.stores.sqlite.tasks import SqliteTasks
from outlast.stores.sqlite.workers import SqliteWorkers


class SqliteStore(
    SqliteTasks,
    SqliteWorkers,
    SqliteDeadLetters,
    SqliteQueues,
    SqliteCooldowns,
    SqlitePeriodic,
    SqliteSources,
    SqliteCycles,
    SqliteAlerts,
    SqliteJobs,
    SqliteBreakers,
    SqliteLimits,
    SqliteReads,
    SqliteCounterRepair,
    SqliteLists,
    SqliteRollup,
    SqliteReplays,
    SqliteTriage,
    SqliteSchema,
):
    """All duties in one file, which may be shared by the processes of a machine.

    Args:
        path: Of the file; it is created, with its tables, when it is first used.
        synchronous: ``FULL`` survives a power cut, ``NORMAL`` may lose the last moments to one.
    """

    poll = 0.05
    """Seconds between two looks of an idle worker: other processes cannot call it."""
    rescue_every = 1.0
    """Seconds between two looks for dead workers, which their locks give away at once."""
    in_process = False
    """Whether other processes see nothing of it."""
    _database = SqliteDatabase

    def __init__(self, path: str | Path, synchronous: str = "FULL") -> None:
        """Open nothing yet."""
        self.db = self._database(path, prepare_schema, synchronous)
        self.held_locks: dict[str, IO[bytes]] = {}
        self.job_locks = []
        self._wakes: tuple[Callable[[], None], ...] = ()

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks and wake the workers of this process; those of others look by themselves."""
        added = super().enqueue(tasks, connection)
        for wake in self._wakes:
            wake()
        return added

    def close(self) -> None:
        """Close the file, and let go of all locks: workers that did not leave are dead to others then."""
        super().close()
        while self.job_locks:
            self.job_locks.pop().release()
        while self.held_locks:
            self.held_locks.popitem()[1].close()

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when this process has enqueued something."""
        self._wakes = (*self._wakes, wake)

        def end() -> None:
            self._wakes = tuple(each for each in self._wakes if each is not wake)

        return end
