"""A fake clock: sleeping on it takes no time."""

import threading
import time
from contextlib import contextmanager

from outlast import async_backends
from outlast import clock as real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class FakeClock:
    """A clock that advances only when you call it, or when something sleeps on it.

    Args:
        start: Start time in seconds since the epoch; by default now.
        chance: The value of every random number, 0 to 1.

    Attributes:
        waits: Every sleep so far, in seconds.
    """

    def __init__(self, start: float | None = None, *, chance: float = 1.0) -> None:
        self._wall = time.time() if start is None else start
        self._monotonic = 1000.0
        self._chance = chance
        self._lock = threading.Lock()
        self.waits: list[float] = []

    def __repr__(self) -> str:
        """Return the time and the waits as text."""
        return f"FakeClock(now={self._wall:.3f}, waits={self.waits})"

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._wall

    def monotonic(self) -> float:
        """Return the monotonic time in seconds."""
        return self._monotonic

    def chance(self) -> float:
        """Return the fixed random number."""
        return self._chance

    def sleep(self, seconds: float) -> None:
        """Record a wait, and advance by it at once."""
        self.waits.append(seconds)
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Record a wait, advance by it, and let other coroutines run once."""
        self.sleep(seconds)
        await async_backends.sleep(0)

    def advance(self, seconds: float) -> None:
        """Advance both clocks by some seconds."""
        with self._lock:  # tasks of a worker sleep in several threads
            self._wall += seconds
            self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Change the wall clock by some seconds, like NTP; the monotonic clock does not change."""
        with self._lock:
            self._wall += seconds


@contextmanager
def fake_clock(start: float | None = None, *, chance: float = 1.0) -> "Iterator[FakeClock]":
    """Replace the system clock with a `FakeClock` in the block, so that retries take no time."""
    clock = FakeClock(start, chance=chance)
    previous = real.use(clock)
    try:
        yield clock
    finally:
        real.use(previous)


def current_fake_clock() -> FakeClock | None:
    """Return the fake clock that is in use; None if there is none."""
    clock = real._in_use  # noqa: SLF001  # the setting that `use` changes
    return clock if isinstance(clock, FakeClock) else None
