"""For your own tests: a clock that does not wait, and functions that fail as told.

>>> with fake_clock() as clock:
...     fetch_with_retries()
>>> clock.waits
[0.5, 1.0]
"""

import inspect
import time
from contextlib import contextmanager

from holdfast import backends
from holdfast import clock as real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["FakeClock", "failing", "fake_clock"]


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
        self.waits: list[float] = []

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
        await backends.sleep(0)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._wall += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock, as an operator or a time server does; nothing that measures time may notice."""
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


def failing(
    function: "Callable[P, R]", errors: "Iterable[BaseException | type[BaseException] | None]"
) -> "Callable[P, R]":
    """Return the function with failures put before it: each call raises the next of the errors, None lets it through.

    Args:
        function: What is called once the errors are used up.
        errors: What to raise, in order.
    """
    waiting = iter(errors)
    if inspect.iscoroutinefunction(function):

        async def call_async(*args: "Any", **kwargs: "Any") -> "Any":
            error = next(waiting, None)
            if error is not None:
                raise error
            return await function(*args, **kwargs)

        return call_async  # type: ignore[return-value]  # a coroutine function for a coroutine function

    def call(*args: "Any", **kwargs: "Any") -> "Any":
        error = next(waiting, None)
        if error is not None:
            raise error
        return function(*args, **kwargs)

    return call
