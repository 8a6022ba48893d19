"""Ends first attempts of async calls at their time limit, for little more than a note in a dictionary per call.

`asyncio.timeout` sets a timer for every call, which costs many times what the call itself does. Here the calls of one
function are noted in the order in which they are due, and a single timer per event loop looks after the oldest.
"""

import time
from _thread import get_ident
from asyncio import CancelledError
from asyncio import _get_running_loop as running_loop  # None under trio, where the public one raises
from asyncio import tasks as asyncio_tasks

from holdfast import backends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Callable
    from typing import Any

__all__ = ["CancelledError", "Watch", "current_task", "get_ident", "new_watch"]


class Watch:
    """The watched calls of one function on one event loop; all have the same limit, so they are due in order.

    Attributes:
        calls: The tasks that are in a call, with the time at which it began.
        thread: The one whose event loop it is; asking for the running loop would cost a system call on Python 3.11.
        cancelled: Those that we have cancelled, with the cancellations that each had before (none: a task that is being
            cancelled is left alone).
    """

    __slots__ = ("armed", "calls", "cancelled", "loop", "offset", "thread")

    def __init__(self, loop: "AbstractEventLoop", limit: float) -> None:
        """Begin with none."""
        self.loop = loop
        self.thread = get_ident()
        self.offset = loop.time() - time.monotonic() + limit
        self.calls: dict[Task[Any], float] = {}
        self.cancelled: dict[Task[Any], int] = {}
        self.armed = False

    def arm(self, started: float) -> None:
        """Set the timer for the oldest call, which began at that time."""
        self.armed = True
        self.loop.call_at(started + self.offset, self._look)

    def _look(self) -> None:
        """Cancel what is over, and set the timer for the next."""
        now = self.loop.time() - self.offset
        for task, started in list(self.calls.items()):
            if started > now:
                self.arm(started)
                return
            if task not in self.cancelled and not task.cancelling():  # somebody else's cancellation goes before ours
                self.cancelled[task] = 0
                task.cancel()
        self.armed = False

    def ended(self, task: "Task[Any]") -> bool:
        """Tell whether a cancellation that reached a call is ours alone; then it is taken back, and time is over."""
        before = self.cancelled.pop(task, None)
        return before is not None and task.uncancel() <= before

    def settle(self, task: "Task[Any]") -> None:
        """Take our cancellation back from a call that ended in another way: by an answer, or an error of its own."""
        if self.cancelled.pop(task, None) is not None:
            task.uncancel()


def new_watch(limit: float) -> Watch | None:
    """Return a watch for the running event loop, or None under trio."""
    loop = running_loop()
    return None if loop is None or backends.in_trio() else Watch(loop, limit)


def _current_task_lookup() -> "Callable[[AbstractEventLoop], Task[Any] | None]":
    """Return the quickest way to the task running on a loop; on Python 3.11 asyncio's own is written in Python."""
    known: Any = getattr(asyncio_tasks, "_current_tasks", None)
    return known.get if isinstance(known, dict) else asyncio_tasks.current_task


current_task = _current_task_lookup()
