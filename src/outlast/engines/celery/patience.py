"""Waits for a store that is busy or restarts: a few seconds, over all that is asked of it for one attempt."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from outlast import clock
from outlast.classify import classify
from outlast.ports.waiting import seconds_left, waiting_at_most

__all__ = ["in_time", "patiently"]

LONGEST = 5.0
"""Seconds that one attempt waits for the store: the task behind it waits as long."""
_PAUSES = (0.2, 0.8, 2.0)  # seconds between the tries of what cannot be left out
P = ParamSpec("P")
T = TypeVar("T")


def in_time(work: Callable[P, T]) -> Callable[P, T]:
    """Have all that a function asks of the store wait for it no longer than an attempt may, together."""

    @wraps(work)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> T:
        with waiting_at_most(LONGEST):
            return work(*args, **kwargs)

    return bounded


def patiently(work: Callable[[], T]) -> T:
    """Do what must not be left out: a database that is busy or restarts is asked again while there is time."""
    for pause in _PAUSES:
        try:
            return work()
        except Exception as trouble:
            if not classify(trouble).retryable or seconds_left(LONGEST) <= pause:
                raise
            clock.sleep(pause)
    return work()
