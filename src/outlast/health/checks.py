"""Ready-made checks: is the loop alive, does work pile up, do tasks die, is there room on the disk."""

import shutil
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Protocol

from outlast import clock
from outlast.errors import ConfigError
from outlast.health.findings import Finding
from outlast.ports.rows import DeadLetter, DeadLetterFilter

__all__ = ["DeadLetterGrowth", "DiskSpace", "Heartbeat", "OldestReadyTask"]

MIB = 1024 * 1024


class Heartbeat:
    """Whether a loop is alive: it calls `beat` in every round, and the last beat must not be too long ago.

    Args:
        limit: Seconds; a beat that is older means that the loop is stuck or dead.
    """

    def __init__(self, limit: float = 30.0) -> None:
        """Begin as if it had just beaten: what starts has so long to get going."""
        self._limit = _positive("limit", limit)
        self._beaten_at = clock.monotonic()

    def beat(self) -> None:
        """Give a sign of life; may be called from any thread, and costs nothing."""
        self._beaten_at = clock.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last beat."""
        return clock.monotonic() - self._beaten_at

    def __call__(self) -> Finding:
        """Compare the age with the limit."""
        age = self.age
        return Finding(age < self._limit, f"last beat {age:.1f} s ago, the limit is {self._limit:g} s")


class ReadyStore(Protocol):
    """What `OldestReadyTask` asks of a store."""

    def oldest_ready(self, queues: Sequence[str], /) -> float | None:
        """Return the seconds for which the oldest ready task waits."""


class OldestReadyTask:
    """Whether ready tasks wait too long: degraded, for the program itself may be well and only too small.

    Args:
        store: Where the tasks are.
        limit: Seconds.
        queues: Which ones matter, or what returns them.
    """

    def __init__(
        self,
        store: ReadyStore,
        limit: float = 300.0,
        queues: Sequence[str] | Callable[[], Sequence[str]] = ("default",),
    ) -> None:
        """Check the settings."""
        self._store = store
        self._limit = _positive("limit", limit)
        self._queues = queues if callable(queues) else lambda: queues

    def __call__(self) -> Finding:
        """Compare the wait of the oldest ready task with the limit."""
        waits = self._store.oldest_ready(tuple(self._queues()))
        if waits is None:
            return Finding(ok=True, detail="no task waits")
        detail = f"the oldest ready task waits for {waits:.0f} s, the limit is {self._limit:g} s"
        return Finding(ok=True, detail=detail, degraded=waits > self._limit)


class DeadLetterStore(Protocol):
    """What `DeadLetterGrowth` asks of a store."""

    def now(self) -> datetime:
        """Return the time by the store's clock."""

    def dead_letters(self, which: DeadLetterFilter, /) -> list[DeadLetter]:
        """Return dead letters, newest first."""


class DeadLetterGrowth:
    """Whether many tasks have died lately: degraded, for the program goes on with the others.

    Only the newest dead letters are read, so it costs the same however many there are, and it holds across restarts
    and processes. Those that were replayed or discarded in the meantime do not count.

    Args:
        store: Where the dead letters are.
        limit: So many within the window are no cause for concern.
        window: Seconds.
    """

    def __init__(self, store: DeadLetterStore, limit: int = 10, window: float = 3600.0) -> None:
        """Check the settings."""
        if type(limit) is not int or limit < 0:
            message = f"limit is {limit!r}; give a whole number, 0 or more"
            raise ConfigError(message)
        self._store, self._limit = store, limit
        self._window = _positive("window", window)

    def __call__(self) -> Finding:
        """See how old the newest dead letter is that would be one too many."""
        newest = self._store.dead_letters(DeadLetterFilter(limit=self._limit + 1))
        since = self._store.now() - timedelta(seconds=self._window)
        new = sum(letter.moved_to_dlq_at > since for letter in newest)
        many = new > self._limit
        count = f"more than {self._limit}" if many else str(new)
        return Finding(ok=True, detail=f"{count} new dead letters within {self._window:g} s", degraded=many)


class DiskSpace:
    """Whether there is room on the disk; without any, nothing can be recorded.

    Args:
        path: A folder or file on that disk.
        least: Bytes that have to be free for this user.
    """

    def __init__(self, path: str | PathLike[str], least: int = 100 * MIB) -> None:
        """Check the settings; the disk is looked at later."""
        self._path, self._least = path, _positive("least", least)

    def __call__(self) -> Finding:
        """Compare what is free with the least."""
        free = shutil.disk_usage(self._path).free
        return Finding(
            free >= self._least, f"{free / MIB:.0f} MiB free, the least that is needed is {self._least / MIB:.0f} MiB"
        )


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        message = f"{name} is {value!r}; give a number above 0"
        raise ConfigError(message)
    return value
