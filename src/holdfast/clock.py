"""Time as a parameter, so that a test never waits.

Two clocks are kept apart: the wall clock answers what an HTTP-date means, the monotonic one measures waits and
deadlines, and a jump of the first never changes the second.
"""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    WallClock = Callable[[], float]
    """Seconds since the epoch."""

__all__ = ["sleep"]


def sleep(seconds: float) -> None:
    """Block this thread for so many seconds."""
    time.sleep(seconds)
