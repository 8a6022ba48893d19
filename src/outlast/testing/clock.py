"""A clock that does not wait."""

import threading
import time
from contextlib import contextmanager

from outlast import async_backends
from outlast import clock as real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class FakeClock:
    """A clock that moves only when told, or when somebody sleeps on it.

    Args:
        start: Seconds since the epoch at which it begins; by default now.
        chance: What every draw of a random number gives, 0 to 1.

    Attributes:
        waits: Every wait so far, in seconds.
    """

    def __init__(self, start: float | None = None, *, chance: float = 1.0) -> None:
        """Begin at a time."""
        self._wall = time.time() if start is None else start
        self._monotonic = 1000.0
        self._chance = chance
        self._moving = threading.Lock()
        self.waits: list[float] = []

    def __repr__(self) -> str:
        """Show the waits."""
        return f"FakeClock(now={self._wall:.3f}, waits={self.waits})"

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._wall

    def monotonic(self) -> float:
        """Return seconds on the clock that never goes back."""
        return self._monotonic

    def chance(self) -> float:
        """Return the number that stands for chance."""
        return self._chance

    def sleep(self, seconds: float) -> None:
        """Note a wait and move on by it at once."""
        self.waits.append(seconds)
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Note a wait and move on by it, letting others run once."""
        self.sleep(seconds)
        await async_backends.sleep(0)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._moving:  # the tasks of a worker sleep in several threads
            self._wall += seconds
            self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock, as an operator or a time server does; nothing that measures time may notice."""
        with self._moving:
            self._wall += seconds


@contextmanager
def fake_clock(start: float | None = None, *, chance: float = 1.0) -> "Iterator[FakeClock]":
    """Put a `FakeClock` in the place of the system's for as long as the block runs: retries then wait for nothing."""
    clock = FakeClock(start, chance=chance)
    before = real.use(clock)
    try:
        yield clock
    finally:
        real.use(before)


def current_fake_clock() -> FakeClock | None:
    """Return the fake clock that this process goes by; None if it goes by another one."""
    clock = real._in_use  # noqa: SLF001  # the setting that `use` changes
    return clock if isinstance(clock, FakeClock) else None
