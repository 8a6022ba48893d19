"""The clocks, sleep functions and random numbers that Outlast uses; tests replace them with `use`.

The wall clock interprets HTTP dates. The monotonic clock measures waits and deadlines, so a change of the system time
does not affect them. Call them through this module (``clock.monotonic()``), so that `use` can replace them;
`outlast.testing` has a clock for tests.
"""

import time

from outlast import async_backends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Protocol

    WallClock = Callable[[], float]
    """Seconds since the epoch."""

    class Clock(Protocol):
        """A replacement for the system clock."""

        def now(self) -> float:
            """Return seconds since the epoch."""

        def monotonic(self) -> float:
            """Return seconds on a clock that never goes back."""

        def sleep(self, seconds: float) -> None:
            """Block for `seconds`."""

        def sleep_async(self, seconds: float) -> Awaitable[None]:
            """Wait without blocking the event loop."""

        def chance(self) -> float:
            """Return a random number in [0, 1)."""


now: "Callable[[], float]" = time.time
"""Seconds since the epoch."""
monotonic: "Callable[[], float]" = time.monotonic
"""Seconds since an arbitrary point; never goes back."""
sleep: "Callable[[float], None]" = time.sleep
"""Block this thread."""
sleep_async: "Callable[[float], Awaitable[None]]" = async_backends.sleep
"""Wait without blocking the event loop, under asyncio or trio."""
chance: "Callable[[], float] | None" = None
"""Returns a random number in [0, 1); None for the system's."""


TEST_LEASE = 1e8
"""Seconds of a lease under a test clock, which may advance by hours between two heartbeats."""
_in_use: "Clock | None" = None


def use(clock: "Clock | None") -> "Clock | None":
    """Replace the system clock for the whole process; None restores the system clock.

    Returns:
        The clock that was in use before; None for the system clock.
    """
    global now, monotonic, sleep, sleep_async, chance, _in_use
    before, _in_use = _in_use, clock
    if clock is None:
        now, monotonic, sleep, sleep_async, chance = time.time, time.monotonic, time.sleep, async_backends.sleep, None
    else:
        now, monotonic, sleep = clock.now, clock.monotonic, clock.sleep
        sleep_async, chance = clock.sleep_async, clock.chance
    return before


def wall_clock() -> float:
    """Return seconds since the epoch. A default argument that is this function follows `use`."""
    return now()


def lease_seconds(seconds: float) -> float:
    """Return for how long to take a lease: under a test clock for `TEST_LEASE`."""
    return seconds if _in_use is None else max(seconds, TEST_LEASE)


def random() -> float:
    """Return a random number in [0, 1)."""
    if chance is not None:
        return chance()
    from random import random as system_random  # noqa: PLC0415  # costs milliseconds, and only jitter needs it

    return system_random()  # noqa: S311  # jitter, not a secret
