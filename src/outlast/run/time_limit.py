"""Cancels an async attempt when its time is up.

`asyncio.timeout` sets and cancels one timer per call, which costs more than most calls. Here one timer per event loop
looks after a dictionary of running tasks. What is rare is left to `asyncio.timeout`, and trio to its own cancel scopes.
"""

import math
import threading
from asyncio import CancelledError, current_task, get_running_loop
from contextvars import Context

from outlast import async_backends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task, TimerHandle
    from collections.abc import Awaitable, Callable
    from typing import Any


class _LoopTimer:
    """The time limits of one event loop. Only the thread that runs the loop uses it.

    Attributes:
        due: The tasks that have a limit, and when each is cancelled, on the clock of the loop.
        expired: Those of them that this timer has cancelled.
    """

    def __init__(self, loop: "AbstractEventLoop | None") -> None:
        self.loop = loop
        self.due: dict[Task[Any], float] = {}
        self.expired: set[Task[Any]] = set()
        self.wakes_at = math.inf
        self._handle: TimerHandle | None = None

    def wake_at(self, due: float) -> None:
        """Set the timer."""
        assert self.loop is not None  # noqa: S101  # for type checkers: only a running loop has tasks
        if self._handle is not None:
            self._handle.cancel()
        self.wakes_at = due
        # A context of its own: the caller's may hold a request, which would stay in memory until the timer fires.
        self._handle = self.loop.call_at(due, self._cancel_expired, context=Context())

    def _cancel_expired(self) -> None:
        assert self.loop is not None  # noqa: S101  # for type checkers, as above
        self._handle, self.wakes_at = None, math.inf
        now = self.loop.time()
        for task, due in list(self.due.items()):
            if due <= now and task not in self.expired:
                self.expired.add(task)
                task.cancel()
        waiting = [due for task, due in self.due.items() if task not in self.expired]
        if waiting:
            self.wake_at(min(waiting))

    def end(self, task: "Task[Any]") -> bool:
        """End the limit of a task; return whether this timer has cancelled it, and nobody else has."""
        del self.due[task]
        if not self.expired or task not in self.expired:
            return False
        self.expired.remove(task)
        return task.uncancel() == 0


class _ThisThread(threading.local):
    """The timer of the event loop that ran last in this thread. Another loop, or a forked process, gets its own."""

    timer = _LoopTimer(None)


_this_thread = _ThisThread()


def _start(seconds: float) -> "tuple[_LoopTimer, Task[Any]] | None":
    """Start the limit of the running task.

    Returns:
        None for what `asyncio.timeout` or trio has to do: no asyncio task is running, it has a limit already (a call
        within a call), or it is being cancelled.
    """
    try:
        loop = get_running_loop()
    except RuntimeError:
        return None
    timer = _this_thread.timer
    if timer.loop is not loop:
        timer = _this_thread.timer = _LoopTimer(loop)
    task = current_task(loop)
    if task is None or task in timer.due or task.cancelling() or async_backends.in_trio():
        return None
    due = timer.due[task] = loop.time() + seconds
    if due < timer.wakes_at:
        timer.wake_at(due)
    return timer, task


def timeout_error(seconds: float) -> Exception:
    """Return the error of an attempt that took longer than `seconds`."""
    return TimeoutError(f"cancelled after {seconds:.3g} s")


async def run_within(
    seconds: float,
    function: "Callable[..., Awaitable[Any]]",
    args: "tuple[Any, ...]",
    kwargs: "dict[str, Any]",
    late: "Callable[[float], Exception]" = timeout_error,
) -> "Any":
    """Call a coroutine function and await it for at most `seconds`; then cancel it and raise what `late` returns."""
    limit = _start(seconds)
    if limit is None:
        return await async_backends.run_with_timeout(seconds, function(*args, **kwargs), late)
    timer, task = limit
    try:
        result = await function(*args, **kwargs)
    except BaseException as error:
        if timer.end(task) and issubclass(type(error), CancelledError):
            raise late(seconds) from None
        raise
    timer.end(task)
    return result
