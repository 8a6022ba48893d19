"""For how long a store may be waited for, where somebody else waits for the answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from outlast import clock

__all__ = ["seconds_left", "waiting_at_most"]

_until: ContextVar[float | None] = ContextVar("outlast_store_until", default=None)


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Have everything that is asked of a store within the block, together, wait no longer for a connection or a lock.

    A block within a block never has more time than the one around it. What the store does once it is reached takes as
    long as it takes.
    """
    before = _until.set(clock.monotonic() + seconds_left(seconds))
    try:
        yield
    finally:
        _until.reset(before)


def seconds_left(most: float) -> float:
    """Return how long may be waited now.

    Args:
        most: Where nobody has said anything, and otherwise at most.
    """
    until = _until.get()
    return most if until is None else max(0.0, min(most, until - clock.monotonic()))
