"""Ends first attempts of async calls at their time limit, for little more than a note in a dictionary per call.

`asyncio.timeout` sets a timer for every call, which costs many times what the call itself does. Here the calls of one
function are noted in the order in which they are due, and a single timer per event loop looks after the oldest.
"""

import time
from asyncio import CancelledError, get_running_loop
from asyncio import tasks as asyncio_tasks

from holdfast import backends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Callable
    from typing import Any

    Entry = list[Any]
    """One call: its task, when it is due, and the task's cancellations before ours (-1 while there is none)."""

__all__ = ["CancelledError", "Watch", "current_task", "ended", "get_running_loop", "new_watch"]


class Watch:
    """The watched calls of one function on one event loop; all have the same limit, so they are due in order."""

    __slots__ = ("armed", "calls", "loop", "offset")

    def __init__(self, loop: "AbstractEventLoop", limit: float) -> None:
        """Begin with none."""
        self.loop = loop
        self.offset = loop.time() - time.monotonic() + limit
        self.calls: dict[int, Entry] = {}
        self.armed = False

    def arm(self, due: float) -> None:
        """Set the timer for the oldest call."""
        self.armed = True
        self.loop.call_at(due, self._look)

    def _look(self) -> None:
        """Cancel what is over, and set the timer for the next."""
        now = self.loop.time()
        for entry in list(self.calls.values()):
            task, due, cancelling = entry
            if due > now:
                self.arm(due)
                return
            if cancelling < 0:
                entry[2] = task.cancelling()
                task.cancel()
        self.armed = False


def ended(entry: "Entry") -> bool:
    """Tell whether a cancellation that reached the call is ours alone; then it is taken back, and time is over."""
    task, _, cancelling = entry
    return bool(cancelling >= 0 and task.uncancel() <= cancelling)


def new_watch(limit: float) -> Watch | None:
    """Return a watch for the running event loop, or None under trio."""
    return None if backends.in_trio() else Watch(get_running_loop(), limit)


def _current_task_lookup() -> "Callable[[AbstractEventLoop], Task[Any] | None]":
    """Return the quickest way to the task running on a loop; on Python 3.11 asyncio's own is written in Python."""
    known: Any = getattr(asyncio_tasks, "_current_tasks", None)
    return known.get if isinstance(known, dict) else asyncio_tasks.current_task


current_task = _current_task_lookup()
