"""Time and chance as parameters, so that a test never waits and never guesses.

Two clocks are kept apart: the wall clock answers what an HTTP-date means, the monotonic one measures waits and
deadlines, and a jump of the first never changes the second. Whoever needs one calls it through this module
(``clock.monotonic()``), so that `use` can put another in its place; `outlast.testing` has one.
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
        """What can be put in the place of the system's clock."""

        def now(self) -> float:
            """Return seconds since the epoch."""

        def monotonic(self) -> float:
            """Return seconds on a clock that never goes back."""

        def sleep(self, seconds: float) -> None:
            """Wait."""

        def sleep_async(self, seconds: float) -> Awaitable[None]:
            """Wait without blocking the event loop."""

        def chance(self) -> float:
            """Return a random number from 0 to 1, without 1."""


def _random() -> float:
    from random import random  # noqa: PLC0415  # costs milliseconds, and only jitter needs it

    return random()  # noqa: S311  # spreads waits, guards no secret


now: "Callable[[], float]" = time.time
"""Seconds since the epoch."""
monotonic: "Callable[[], float]" = time.monotonic
"""Seconds since some moment; never goes back."""
sleep: "Callable[[float], None]" = time.sleep
"""Block this thread."""
sleep_async: "Callable[[float], Awaitable[None]]" = async_backends.sleep
"""Wait without blocking the event loop, under asyncio or trio."""
chance: "Callable[[], float]" = _random
"""A random number in [0, 1)."""


_in_use: "Clock | None" = None
_listeners: "list[Callable[[bool], None]]" = []


def use(clock: "Clock | None") -> "Clock | None":
    """Put a clock in the place of the system's for the whole process; None puts the system's back.

    Returns:
        The clock that was in use before, to put back; None for the system's.
    """
    global now, monotonic, sleep, sleep_async, chance, _in_use
    before, _in_use = _in_use, clock
    if clock is None:
        now, monotonic, sleep, sleep_async, chance = (
            time.time,
            time.monotonic,
            time.sleep,
            async_backends.sleep,
            _random,
        )
    else:
        now, monotonic, sleep = clock.now, clock.monotonic, clock.sleep
        sleep_async, chance = clock.sleep_async, clock.chance
    for listener in _listeners:
        listener(clock is None)
    return before


def when_changed(listener: "Callable[[bool], None]") -> None:
    """Have a function called now and with every change of the clock; it is told whether the system's is in use."""
    _listeners.append(listener)
    listener(_in_use is None)
