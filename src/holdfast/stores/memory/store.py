"""The store in memory."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.ports.rows import Enqueued, NewTask
from holdfast.stores.memory.alerts import MemoryAlerts
from holdfast.stores.memory.book import Book
from holdfast.stores.memory.breakers import MemoryBreakers
from holdfast.stores.memory.cycles import MemoryCycles
from holdfast.stores.memory.dead_letters import MemoryDeadLetters
from holdfast.stores.memory.jobs import MemoryJobs
from holdfast.stores.memory.limits import MemoryLimits
from holdfast.stores.memory.lists import MemoryLists
from holdfast.stores.memory.pauses import MemoryCooldowns, MemoryPeriodic, MemoryQueues
from holdfast.stores.memory.reads import MemoryReads
from holdfast.stores.memory.recounting import MemoryRecounting
from holdfast.stores.memory.replays import MemoryReplays
from holdfast.stores.memory.sources import MemorySources
from holdfast.stores.memory.tasks import MemoryTasks
from holdfast.stores.memory.triage import MemoryTriage
from holdfast.stores.memory.workers import MemoryWorkers

__all__ = ["MemoryStore"]

_VERSION = 6


class MemoryStore(
    MemoryTasks,
    MemoryWorkers,
    MemoryDeadLetters,
    MemoryQueues,
    MemoryCooldowns,
    MemoryPeriodic,
    MemorySources,
    MemoryCycles,
    MemoryAlerts,
    MemoryJobs,
    MemoryBreakers,
    MemoryLimits,
    MemoryReads,
    MemoryRecounting,
    MemoryLists,
    MemoryReplays,
    MemoryTriage,
):
    """All duties in this process: what it holds is gone with it.

    It may be shared by threads. It does what the others do and is written to be read: a claim looks at every task.
    """

    poll = 0.05
    """Seconds between two looks of an idle worker."""
    rescue_every = 1.0
    """Seconds between two looks for dead workers."""
    in_process = True
    """Whether other processes see nothing of it."""

    def __init__(self) -> None:
        """Begin empty."""
        self.book = Book()
        self._wakes: tuple[Callable[[], None], ...] = ()

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks and wake the workers."""
        added = super().enqueue(tasks, connection)
        for wake in self._wakes:
            wake()
        return added

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when something was enqueued."""
        self._wakes = (*self._wakes, wake)

        def end() -> None:
            self._wakes = tuple(each for each in self._wakes if each is not wake)

        return end

    def create_schema(self) -> int:
        """Return the version; there are no tables."""
        return _VERSION

    def check_schema(self) -> None:
        """Do nothing: there are no tables."""

    def close(self) -> None:
        """Do nothing: what is kept stays until the store itself is gone."""
