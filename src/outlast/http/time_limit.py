"""Cancels an attempt of an async request at its time limit."""

import time
from typing import Any

from outlast import async_backends, clock
from outlast.http.transport import HttpxAdapter
from outlast.run.watch import CancelledError, Here

_OWN_TIMEOUT_SHARE = 0.9  # of its time, after which a timeout is taken for ours


class TimedSender:
    """Sends the requests of one transport.

    Args:
        limit: Seconds that a first attempt may take; None where there is no limit. Those are watched by one timer.
    """

    def __init__(self, limit: float | None) -> None:
        """Begin with none."""
        self._limit = limit
        self._here = Here()

    async def send(self, limit: float | None, library: HttpxAdapter, inner: Any, request: Any) -> Any:
        """Send a request for so long at most.

        Raises:
            Exception: The library's own timeout, if the time was over.
        """
        if limit is None:
            return await inner.handle_async_request(request)
        started = time.monotonic()
        usual = limit == self._limit and clock.monotonic is time.monotonic
        begun = self._here.begun(limit, started) if usual else None
        if begun is None:  # a later attempt, trio, or a task that is being cancelled
            return await self._with_a_timer(limit, library, inner, request)
        watch, task = begun
        try:
            return await inner.handle_async_request(request)
        except CancelledError:
            if not watch.is_over(task):
                raise
        finally:
            watch.leaves(task)
        raise library.late_error(request, limit)

    async def _with_a_timer(self, limit: float, library: HttpxAdapter, inner: Any, request: Any) -> Any:
        began = time.monotonic()
        try:
            return await async_backends.run_with_timeout(limit, inner.handle_async_request(request))
        except TimeoutError:
            if time.monotonic() - began < limit * _OWN_TIMEOUT_SHARE:  # of the wrapped transport's own making
                raise
        raise library.late_error(request, limit)
