"""A fake clock: sleeping on it takes no time."""

import sys
import threading
import time
from contextlib import contextmanager

from outlast import async_backends
from outlast import clock as real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP = 0.002  # real seconds between two looks of a waiter at the clock


class FakeClock:
    """A clock that advances only when you call `advance`, or when something sleeps on it.

    Waits at the same time overlap: thirty threads or coroutines that sleep 7 s advance the clock by 7 s together. A
    waiter is a thread or coroutine that is inside `sleep` or `sleep_async`. The clock advances to the earliest wake-up
    when no new waiter has come for `patience`. It advances at once if nothing else can become a waiter: in the only
    thread that has used the clock, outside of an event loop or in the only task of an asyncio loop. Work that takes
    longer in real time than `patience`, such as a slow request, does not hold the clock back.

    Args:
        start: Start time in seconds since the epoch; by default now.
        chance: The value of every random number, 0 to 1.
        patience: Real seconds for which waiters wait for others to join them. Raise it if the requests of a test are
            slow and their waits should still overlap.

    Attributes:
        waits: Every sleep so far, in seconds.
    """

    def __init__(self, start: float | None = None, *, chance: float = 1.0, patience: float = 0.05) -> None:
        self._wall = time.time() if start is None else start
        self._monotonic = 1000.0
        self._chance = chance
        self._patience = patience
        self._lock = threading.Lock()
        self._wake_ups: list[float] = []  # of all waiters, on the monotonic clock
        self._joined_at = 0.0  # real time when the last waiter came, or the clock advanced
        self._threads = {threading.current_thread()}
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
        """Record a wait, and block until the clock has advanced by it."""
        with self._waiting(seconds) as wake_up:
            while self._monotonic < wake_up:
                time.sleep(_STEP)
                self._advance_to_next()

    async def sleep_async(self, seconds: float) -> None:
        """Record a wait, and let other coroutines run until the clock has advanced by it."""
        with self._waiting(seconds) as wake_up:
            while self._monotonic < wake_up:
                await async_backends.sleep(_STEP)
                self._advance_to_next()
        await async_backends.sleep(0)

    def advance(self, seconds: float) -> None:
        """Advance both clocks by some seconds."""
        with self._lock:
            self._advance(seconds)

    def jump(self, seconds: float) -> None:
        """Change the wall clock by some seconds, like NTP; the monotonic clock does not change."""
        with self._lock:
            self._wall += seconds

    def _advance(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds
        self._joined_at = time.monotonic()

    @contextmanager
    def _waiting(self, seconds: float) -> "Iterator[float]":
        """Be a waiter in the block, which gets the wake-up time; a waiter that is alone has advanced the clock."""
        with self._lock:
            self.waits.append(seconds)
            wake_up = self._monotonic + max(seconds, 0.0)
            if self._is_alone():
                self._advance(max(seconds, 0.0))
            self._wake_ups.append(wake_up)
            self._joined_at = time.monotonic()
        try:
            yield wake_up
        finally:
            with self._lock:
                self._wake_ups.remove(wake_up)

    def _is_alone(self) -> bool:
        self._threads = {each for each in self._threads if each.is_alive()} | {threading.current_thread()}
        return len(self._threads) == 1 and not self._wake_ups and not _is_in_concurrent_loop()

    def _advance_to_next(self) -> None:
        """Advance to the earliest wake-up, if no waiter has come for a while."""
        with self._lock:
            wait = min(self._wake_ups) - self._monotonic
            if wait > 0 and time.monotonic() - self._joined_at >= self._patience:
                self._advance(wait)
                self._monotonic = min(self._wake_ups)  # exactly, whatever was rounded


def _is_in_concurrent_loop() -> bool:
    """Return whether this thread runs an event loop with other tasks; under trio, whether it runs one."""
    if async_backends.in_trio():
        return True
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        return len(asyncio.all_tasks()) > 1
    except RuntimeError:  # no event loop is running
        return False


@contextmanager
def fake_clock(start: float | None = None, *, chance: float = 1.0, patience: float = 0.05) -> "Iterator[FakeClock]":
    """Replace the system clock with a `FakeClock` in the block, so that retries take no time."""
    clock = FakeClock(start, chance=chance, patience=patience)
    previous = real.use(clock)
    try:
        yield clock
    finally:
        real.use(previous)


def current_fake_clock() -> FakeClock | None:
    """Return the fake clock that is in use; None if there is none."""
    clock = real._in_use  # noqa: SLF001  # the setting that `use` changes
    return clock if isinstance(clock, FakeClock) else None
