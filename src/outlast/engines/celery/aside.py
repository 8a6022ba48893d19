"""A thread beside the loop of a Celery worker, for what may have to wait for the store."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kombu.asynchronous import get_event_loop

from outlast.classify import classify
from outlast.engines.celery.logs import log

__all__ = ["Aside", "Then"]

Then = Callable[[], object]


class Aside:
    """Does one thing after the other beside the loop, and then in the loop what is left to do there.

    Where there is no such thread, or no loop, it is done at once.
    """

    def __init__(self) -> None:
        """Begin closed."""
        self._thread: ThreadPoolExecutor | None = None

    def open(self) -> None:
        """Have a thread from now on."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="outlast-celery-aside")

    def close(self) -> None:
        """Wait for what was begun; what comes from now on is done at once."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    def do(self, work: Callable[[], Then | None]) -> None:
        """Do something that may take a while.

        Args:
            work: Returns what is left to do in the loop, where the broker may be talked to.
        """
        loop: Any = get_event_loop()
        if self._thread is None or loop is None:
            _done(_done(work))
        else:
            self._thread.submit(lambda: loop.call_soon(_done, _done(work)))


def _done(work: Callable[[], Any] | None) -> Any:
    try:
        return None if work is None else work()
    except Exception as error:  # noqa: BLE001  # of what ends a task; neither the thread nor the loop may end by it
        log.error("the end of an attempt could not be told: %s", classify(error))
        return None
