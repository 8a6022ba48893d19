"""Ends the first attempts of async calls at their time limit.

`asyncio.timeout` sets a timer for every call. Here one timer per event loop watches all calls of a function, which are
recorded with their start times.
"""

import time
from _thread import _local as local
from _thread import get_ident
from asyncio import CancelledError
from asyncio import _get_running_loop as running_loop  # None under trio, where the public one raises
from asyncio import tasks as asyncio_tasks
from contextvars import Context
from weakref import WeakSet, ref

from outlast import async_backends
from outlast.forks import after_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task, TimerHandle
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


class _Place:
    """Where an event loop runs, if it does not tell itself."""

    def __init__(self, thread: int) -> None:
        self._thread_id = thread


class Watch:
    """The watched calls of one function on one event loop; all have the same limit.

    The thread of the event loop alone notes calls here, and forgets them.

    Attributes:
        limit: Seconds that a call may take.
        loop: The event loop.
        place: Has the number of the thread that the event loop runs in as ``_thread_id``; asyncio's loops do.
        task: None if a call may be noted in this attribute and the next, which is quicker than in a dictionary; if one
            is, its task; while no timer is set, something else.
        started: When that call began.
        calls: The tasks that are in other calls, with the time at which each began.
        cancelled: Those that are cancelled from here; None if there are none.
    """

    __slots__ = ("__weakref__", "_offset", "_timer", "calls", "cancelled", "limit", "loop", "place", "started", "task")

    def __init__(self, loop: "AbstractEventLoop | None", limit: float) -> None:
        """Begin with none, in the thread of the event loop."""
        self.loop, self.limit = loop, limit
        here = -1 if loop is None else get_ident()
        self.place: Any = loop if getattr(loop, "_thread_id", None) == here else _Place(here)
        self.task: Task[Any] | None = _ASLEEP
        self.started = 0.0
        self.calls: dict[Task[Any], float] = {}
        self.cancelled: set[Task[Any]] | None = None
        self._offset = 0.0 if loop is None else loop.time() - time.monotonic()
        self._timer: TimerHandle | None = None
        _alive.add(self)

    def __del__(self) -> None:
        """Take the timer along: functions that are decorated for one call would leave a timer each."""
        if self._timer is not None:
            self._timer.cancel()

    def begins(self, task: "Task[Any]", started: float) -> bool:
        """Note a call in the dictionary; False if its task is in one already."""
        if task is self.task or task in self.calls:
            return False
        self.calls[task] = started
        if self.task is _ASLEEP:
            self._wake_at(started + self.limit)
            self.task = None
        return True

    def leaves(self, task: "Task[Any]") -> None:
        """Forget a call that is in the dictionary."""
        del self.calls[task]
        if self.cancelled is not None:
            self.settle(task)

    def is_over(self, task: "Task[Any]") -> bool:
        """Tell whether a cancellation that reached a call is ours alone; ours is taken back, and then time is over."""
        return self.settle(task) and not task.cancelling()

    def is_alone_over(self) -> bool:
        """Tell the same of the call in the attributes; within another of its task the cancellation is for that one."""
        return self.task is not None and self.task not in self.calls and self.is_over(self.task)

    def settle(self, task: "Task[Any]") -> bool:
        """Take our cancellation back from a call, however it ended; False if there is none."""
        if self.cancelled is None or task not in self.cancelled:
            return False
        self.cancelled.remove(task)
        self.cancelled = self.cancelled or None
        task.uncancel()
        return True

    def _wake_at(self, moment: float) -> None:
        assert self.loop is not None  # noqa: S101  # for type checkers: calls are on an event loop
        # in a context of its own: the caller's may hold a request and all that belongs to it
        self._timer = self.loop.call_at(moment + self._offset, _look_after, ref(self), context=Context())

    def look(self) -> None:
        """Cancel what is over, and set the timer for the next.

        Somebody else's cancellation goes before ours: such a call has as much time again to come to its end.
        """
        noted = dict(self.calls)
        if self.task is not None:
            noted.setdefault(self.task, self.started)
        if not noted:
            self.task, self._timer = _ASLEEP, None
            return
        now = time.monotonic()
        wake = now + self.limit
        for task, started in noted.items():
            if self.cancelled is not None and task in self.cancelled:
                continue
            due = started + (self.limit * 2 if task.cancelling() else self.limit)
            if due <= now:
                self._cut(task)
            else:
                wake = min(wake, due)
        self._wake_at(wake)

    def _cut(self, task: "Task[Any]") -> None:
        self.cancelled = {*(self.cancelled or ()), task}
        if task not in self.calls:
            self.__class__ = _Cutting
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


def _look_after(watching: "ref[Watch]") -> None:
    watch = watching()
    if watch is not None:
        watch.look()


_alive: "WeakSet[Watch]" = WeakSet()
NO_WATCH = Watch(None, 0.0)
"""Takes no call: its timer is never set."""


def _forget_all() -> None:
    """Leave the watches of the parent process alone: its event loops and tasks seem to run on in a forked one."""
    for watch in _alive:
        watch.place, watch.task = _Place(-1), _ASLEEP


after_fork(_forget_all)


class Here(local):
    """The watch of one function in each thread, for the event loop that ran there last; it goes with the thread."""

    watch: Watch = NO_WATCH

    def begun(self, limit: float, started: float) -> "tuple[Watch, Task[Any]] | None":
        """Note a call of the running task, be it the first on its event loop.

        Returns:
            Its watch and the task; None under trio, for a call within a call, and in a task that is being cancelled.
        """
        if async_backends.in_trio():
            return None
        watch = self.watch
        running_here = watch.place._thread_id == get_ident()  # noqa: SLF001  # there is no other way to know
        task = RUNNING.get(watch.loop) if running_here else None
        if task is None:
            loop = running_loop()
            if loop is None:
                return None
            watch = self.watch = Watch(loop, limit)
            task = asyncio_tasks.current_task(loop)
        if task is None or task.cancelling() or not watch.begins(task, started):
            return None
        return watch, task
