"""Waits for the store when a service starts before its store is available."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

from outlast import clock
from outlast.classify import classify
from outlast.decide.backoff import DoublingPause
from outlast.failure import Category

_log = logging.getLogger("outlast")
_PAUSES = (0.1, 5.0)  # seconds after the first failure, and at most
_TICK = 0.1  # seconds after which a stop is noticed on an event loop
_HINT_AFTER = 60.0  # seconds after which it is said what else may be wrong
_OUTAGE_CATEGORIES = frozenset({Category.NETWORK, Category.DATABASE_BUSY, Category.SYSTEM})


def is_store_outage(error: Exception) -> bool:
    """Return whether waiting may help: the store is unreachable, restarting or too busy, or its disk is full.

    It does not help against a wrong password, a database that does not exist, encryption that the server does not
    offer, or missing tables. A host name that cannot be resolved may become resolvable.
    """
    failure = classify(error)
    return failure.retryable and failure.category in _OUTAGE_CATEGORIES


class _StorePauses:
    """The pauses between tries. After a minute, a warning says that the URL may be wrong."""

    def __init__(self) -> None:
        self._pause, self._begun, self._said = DoublingPause(*_PAUSES), clock.monotonic(), False

    def after(self, error: Exception) -> float:
        """Return the seconds until the next try; raise an error against which waiting does not help."""
        if not is_store_outage(error):
            raise error
        if not self._said and clock.monotonic() - self._begun >= _HINT_AFTER:
            self._said = True
            _log.warning(
                "the store has not been available for %.0f s; if it runs, check the URL: host, port, folder",
                clock.monotonic() - self._begun,
            )
        return self._pause.grow()


def wait_for_store(
    work: Callable[[], object], stopping: threading.Event, tell: Callable[[Exception, float], object]
) -> bool:
    """Call a function until the store can be reached; return False if it was stopped before that.

    Args:
        work: The function; it may be called more than once.
        stopping: Stops the wait.
        tell: Called with each error and the seconds until the next try.

    Raises:
        Exception: An error against which waiting does not help.
    """
    patience = _StorePauses()
    while True:
        try:
            work()
        except Exception as error:  # noqa: BLE001  # raised again unless waiting may help
            pause = patience.after(error)
            tell(error, pause)
        else:
            return True
        if stopping.wait(pause):
            return False


async def wait_for_store_async(
    work: Callable[[], Awaitable[object]], stopping: threading.Event, tell: Callable[[Exception, float], object]
) -> bool:
    """Do the same on an event loop."""
    patience = _StorePauses()
    while True:
        try:
            await work()
        except Exception as error:  # noqa: BLE001  # as above
            pause = patience.after(error)
            tell(error, pause)
        else:
            return True
        left = pause
        while left > 0 and not stopping.is_set():
            await asyncio.sleep(_TICK)
            left -= _TICK
        if stopping.is_set():
            return False
