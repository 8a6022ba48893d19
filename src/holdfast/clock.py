"""Time and chance as parameters, so that a test never waits and never guesses.

Two clocks are kept apart: the wall clock answers what an HTTP-date means, the monotonic one measures waits and
deadlines, and a jump of the first never changes the second. Whoever needs one calls it through this module
(``clock.monotonic()``), so that `use` can put another in its place; `holdfast.testing` has one.
"""

import time
from _thread import get_ident

from holdfast import backends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Protocol

    WallClock = Callable[[], float]
    """Seconds since the epoch."""

    class Clock(Protocol):
        """What can be put in the place of the system's clock."""

        def now(self) -> float: ...
        def monotonic(self) -> float: ...
        def sleep(self, seconds: float) -> None: ...
        def sleep_async(self, seconds: float) -> Awaitable[None]: ...
        def chance(self) -> float: ...


__all__ = ["chance", "monotonic", "now", "sleep", "sleep_async", "thread", "use"]


def _random() -> float:
    from random import random  # noqa: PLC0415  # costs milliseconds, and only jitter needs it

    return random()  # noqa: S311  # spreads waits, guards no secret


now: "Callable[[], float]" = time.time
"""Seconds since the epoch."""
monotonic: "Callable[[], float]" = time.monotonic
"""Seconds since some moment; never goes back."""
sleep: "Callable[[float], None]" = time.sleep
"""Block this thread."""
sleep_async: "Callable[[float], Awaitable[None]]" = backends.sleep
"""Wait without blocking the event loop, under asyncio or trio."""
chance: "Callable[[], float]" = _random
"""A random number in [0, 1)."""


thread: "Callable[[], int]" = get_ident
"""The number of this thread; while another clock is in use that of none, so that what was timed by the system's in a
known thread is not taken up."""


def _no_thread() -> int:
    return -2


_in_use: "Clock | None" = None


def use(clock: "Clock | None") -> "Clock | None":
    """Put a clock in the place of the system's for the whole process; None puts the system's back.

    Returns:
        The clock that was in use before, to put back; None for the system's.
    """
    global now, monotonic, sleep, sleep_async, chance, thread, _in_use
    before, _in_use = _in_use, clock
    if clock is None:
        now, monotonic, sleep, sleep_async = time.time, time.monotonic, time.sleep, backends.sleep
        chance, thread = _random, get_ident
    else:
        now, monotonic, sleep, sleep_async = clock.now, clock.monotonic, clock.sleep, clock.sleep_async
        chance, thread = clock.chance, _no_thread
    return before
