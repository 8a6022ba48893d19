"""Ends first attempts of async calls at their time limit, for little more than a note per call.

`asyncio.timeout` sets a timer for every call, which costs many times what the call itself does. Here the calls of one
function are noted with the time at which they began, and a single timer per event loop looks after the oldest.
"""

import time
from _thread import _local as local
from _thread import get_ident
from asyncio import CancelledError
from asyncio import _get_running_loop as running_loop  # None under trio, where the public one raises
from asyncio import tasks as asyncio_tasks

from holdfast import backends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from typing import Any

__all__ = ["NO_WATCH", "RUNNING", "CancelledError", "Here", "Watch"]

_ASLEEP: "Any" = object()
"""Stands where a task would while the timer is not set."""


class _Running(dict["AbstractEventLoop | None", "Task[Any]"]):
    """Finds the task that runs on an event loop where asyncio shows no dictionary of them."""

    def __missing__(self, loop: "AbstractEventLoop | None") -> "Task[Any]":
        task = None if loop is None else asyncio_tasks.current_task(loop)
        if task is None:
            raise KeyError(loop)
        return task


_known: "Any" = getattr(asyncio_tasks, "_current_tasks", None)
RUNNING: "dict[AbstractEventLoop | None, Task[Any]]" = _known if isinstance(_known, dict) else _Running()
"""The task that runs on each event loop, to be had with ``[]``; on Python 3.11 asyncio's own way to it costs more."""


class Watch:
    """The watched calls of one function on one event loop; all have the same limit.

    The thread of the event loop alone notes calls here, and forgets them.

    Attributes:
        limit: Seconds that a call may take.
        loop: The event loop.
        thread: The number of its thread.
        task: None if a call may be noted in this attribute and the next, which is quicker than in a dictionary; if one
            is, its task; while no timer is set, something else.
        started: When that call began.
        calls: The tasks that are in other calls, with the time at which each began.
        cancelled: Those that are cancelled here, with the cancellations that each had before; None if there are none.
    """

    __slots__ = ("_offset", "calls", "cancelled", "limit", "loop", "started", "task", "thread")

    def __init__(self, loop: "AbstractEventLoop | None", limit: float) -> None:
        """Begin with none, in the thread of the event loop."""
        self.loop, self.limit = loop, limit
        self.thread = get_ident() if loop is not None else -1
        self._offset = loop.time() - time.monotonic() + limit if loop is not None else 0.0
        self.task: Task[Any] | None = _ASLEEP
        self.started = 0.0
        self.calls: dict[Task[Any], float] = {}
        self.cancelled: dict[Task[Any], int] | None = None

    def begins(self, task: "Task[Any]", started: float) -> bool:
        """Note a call in the dictionary; False if its task is in one already."""
        if task is self.task or task in self.calls:
            return False
        self.calls[task] = started
        if self.task is _ASLEEP:
            self.task = None
            self._wake_for(started)
        return True

    def leaves(self, task: "Task[Any]") -> None:
        """Forget a call that is in the dictionary."""
        del self.calls[task]
        if self.cancelled is not None:
            self.settle(task)

    def is_over(self, task: "Task[Any] | None") -> bool:
        """Tell whether a cancellation that reached a call is ours alone; then it is taken back, and time is over."""
        before = None if task is None else self._taken(task)
        return task is not None and before is not None and task.uncancel() <= before

    def settle(self, task: "Task[Any]") -> None:
        """Take our cancellation back from a call that ended in another way: by an answer, or an error of its own."""
        if self._taken(task) is not None:
            task.uncancel()

    def _taken(self, task: "Task[Any]") -> int | None:
        """Forget that a task was cancelled here, and return the cancellations it had before; None if it was not."""
        before = None if self.cancelled is None else self.cancelled.pop(task, None)
        self.cancelled = self.cancelled or None
        return before

    def _wake_for(self, started: float) -> None:
        """Set the timer for a call that began at that time."""
        assert self.loop is not None  # noqa: S101  # for type checkers: calls are on an event loop
        self.loop.call_at(started + self._offset, self._look)

    def _look(self) -> None:
        """Cancel what is over, and set the timer for the next."""
        now = time.monotonic()
        begun = [*self.calls.values(), *([self.started] if self.task is not None else [])]
        if not begun:
            self.task = _ASLEEP
            return
        for task in [task for task, started in self.calls.items() if started + self.limit <= now]:
            if not task.cancelling():  # somebody else's cancellation goes before ours
                self._cancel(task)
        if self.task is not None and self.started + self.limit <= now:
            self._cancel(self.task)
            self.__class__ = _Cutting
        self._wake_for(min((each for each in begun if each + self.limit > now), default=now))

    def _cancel(self, task: "Task[Any]") -> None:
        if self.cancelled is None:
            self.cancelled = {}
        if task not in self.cancelled:
            self.cancelled[task] = task.cancelling()
            task.cancel()


class _Cutting(Watch):
    """A watch while the call that is noted in its attributes is cancelled.

    When it ends, in whatever way, the cancellation is taken back. As that is done here, no other call pays for it.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        ended = self.task if name == "task" and value is None else None
        super().__setattr__(name, value)
        if ended is not None:
            self.__class__ = Watch  # type: ignore[assignment]  # back to what it was
            self.settle(ended)


NO_WATCH = Watch(None, 0.0)
"""Takes no call: its timer is never set."""


class Here(local):
    """The watch of one function in each thread, for the event loop that ran there last.

    It goes with the thread. A loop that is closed stays until the next one takes its place, or the thread ends.
    """

    watch: Watch = NO_WATCH

    def begun(self, limit: float, started: float) -> "tuple[Watch, Task[Any]] | None":
        """Note a call of the running task, be it the first on its event loop.

        Returns:
            Its watch and the task; None under trio, for a call within a call, and in a task that is being cancelled.
        """
        watch = self.watch
        try:
            task: Task[Any] | None = RUNNING[watch.loop]
        except KeyError:
            loop = running_loop()
            if loop is None or backends.in_trio():
                return None
            watch = self.watch = Watch(loop, limit)
            task = asyncio_tasks.current_task(loop)
        if task is None or task.cancelling() or not watch.begins(task, started):
            return None
        return watch, task
