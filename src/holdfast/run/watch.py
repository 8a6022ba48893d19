"""Ends first attempts of async calls at their time limit, for little more than a note per call.

`asyncio.timeout` sets a timer for every call, which costs many times what the call itself does. Here the calls of one
function are noted in the order in which they are due, and a single timer per event loop looks after the oldest.
"""

import time
from _thread import _local as local
from asyncio import CancelledError
from asyncio import _get_running_loop as running_loop  # None under trio, where the public one raises
from asyncio import tasks as asyncio_tasks

from holdfast import backends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Callable
    from typing import Any

__all__ = ["CancelledError", "Here", "Watch", "current_task"]


class Watch:
    """The watched calls of one function on one event loop; all have the same limit, so they are due in order.

    Attributes:
        task: The task of the newest call. It is noted in two attributes, which is quicker than in a dictionary, until
            another call begins: most calls have ended before, or wait so long that it does not matter.
        started: When that call began.
        calls: The tasks that are in older calls, with the time at which each began.
        cancelled: Those that we have cancelled, with the cancellations that each had before (none: a task that is being
            cancelled is left alone).
    """

    __slots__ = ("armed", "calls", "cancelled", "loop", "offset", "started", "task")

    def __init__(self, loop: "AbstractEventLoop", limit: float) -> None:
        """Begin with none."""
        self.loop = loop
        self.offset = loop.time() - time.monotonic() + limit
        self.task: Task[Any] | None = None
        self.started = 0.0
        self.calls: dict[Task[Any], float] = {}
        self.cancelled: dict[Task[Any], int] = {}
        self.armed = False

    def arm(self, started: float) -> None:
        """Set the timer for the oldest call, which began at that time."""
        self.armed = True
        self.loop.call_at(started + self.offset, self._look)

    def _look(self) -> None:
        """Cancel what is over, and set the timer for the next."""
        self._put_by()
        now = self.loop.time() - self.offset
        for task, started in list(self.calls.items()):
            if started > now:
                self.arm(started)
                return
            if task not in self.cancelled and not task.cancelling():  # somebody else's cancellation goes before ours
                self.cancelled[task] = 0
                task.cancel()
        self.armed = False

    def begins(self, task: "Task[Any]", started: float) -> bool:
        """Note a call; False if its task is in one already."""
        if task is self.task or task in self.calls:
            return False
        self._put_by()
        self.task, self.started = task, started
        return True

    def _put_by(self) -> None:
        """Note the newest call among the older ones, which are due before it."""
        if self.task is not None:
            self.calls[self.task] = self.started
            self.task = None

    def leaves(self, task: "Task[Any]") -> None:
        """Forget a call that is no longer the newest."""
        del self.calls[task]
        if self.cancelled:
            self.settle(task)

    def ended(self, task: "Task[Any]") -> bool:
        """Tell whether a cancellation that reached a call is ours alone; then it is taken back, and time is over."""
        before = self.cancelled.pop(task, None)
        return before is not None and task.uncancel() <= before

    def settle(self, task: "Task[Any]") -> None:
        """Take our cancellation back from a call that ended in another way: by an answer, or an error of its own."""
        if self.cancelled.pop(task, None) is not None:
            task.uncancel()


class Here(local):
    """The watch of one function in each thread, for the event loop that ran there last.

    A thread's own place is found quicker than its running loop, which costs a system call on Python 3.11, and it goes
    with the thread. A loop that is closed stays until the next one takes its place, or the thread ends.
    """

    watch: Watch | None = None

    def begun(self, limit: float, started: float) -> "tuple[Watch, Task[Any]] | None":
        """Note a call of the running task, be it the first on its event loop.

        Returns:
            Its watch and the task; None under trio, for a call within a call, and in a task that is being cancelled.
        """
        watch = self.watch
        if watch is None or current_task(watch.loop) is None:
            loop = running_loop()
            watch = self.watch = None if loop is None or backends.in_trio() else Watch(loop, limit)
        task = None if watch is None else current_task(watch.loop)
        if watch is None or task is None or task.cancelling() or not watch.begins(task, started):
            return None
        return watch, task


def _current_task_lookup() -> "Callable[[AbstractEventLoop], Task[Any] | None]":
    """Return the quickest way to the task running on a loop; on Python 3.11 asyncio's own is written in Python."""
    known: Any = getattr(asyncio_tasks, "_current_tasks", None)
    return known.get if isinstance(known, dict) else asyncio_tasks.current_task


current_task = _current_task_lookup()
