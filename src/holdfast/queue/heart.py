"""The heart of a worker: one thread that renews its lease and looks after what others have left behind."""

import time
from collections.abc import Callable
from threading import Event
from typing import NamedTuple

from holdfast import clock
from holdfast.classify import classify
from holdfast.errors import LeaseLostError
from holdfast.ports.store import Store
from holdfast.queue.logs import log
from holdfast.record.bus import has_subscribers, publish

__all__ = ["Chore", "Heart"]


class Chore(NamedTuple):
    """Something to be done every so often."""

    every: float
    work: Callable[[], object]


class Heart:
    """Beats until it is stopped. A chore that fails is logged and done again the next time.

    Args:
        store: Where the lease is.
        worker_id: Tells whose; it changes when the lease was lost.
        lease: Seconds that one beat is worth.
        every: Seconds between two beats.
        state: Tells what the worker does, for people.
        on_lost: Called when the lease was lost.
    """

    def __init__(  # its parts
        self,
        store: Store,
        worker_id: Callable[[], str],
        *,
        lease: float,
        every: float,
        state: Callable[[], str],
        on_lost: Callable[[], object],
    ) -> None:
        """Begin with a lease that has just been given."""
        self.store, self.lease, self.every = store, lease, every
        self._worker_id = worker_id
        self.chores: list[Chore] = []
        self._state, self._on_lost = state, on_lost
        self._stop = Event()
        self._steady_at = 0.0
        self.renewed()

    @property
    def holds(self) -> bool:
        """Whether the lease surely holds; without it nothing may be claimed."""
        return time.monotonic() - self._beaten_at < self.lease - self.every / 2

    def stop(self) -> None:
        """End it."""
        self._stop.set()

    def run(self) -> None:
        """Beat and do chores, each in its time."""
        due = [(time.monotonic() + self.every, self.beat), *((time.monotonic(), each.work) for each in self.chores)]
        spans = [self.every, *(each.every for each in self.chores)]
        while not self._stop.wait(max(0.0, min(at for at, _ in due) - time.monotonic())):
            for place, (at, work) in enumerate(due):
                if time.monotonic() >= at:
                    self._do(work)
                    due[place] = (time.monotonic() + spans[place], work)

    def beat(self) -> None:
        """Renew the lease."""
        asked_at = time.monotonic(), clock.now()  # the lease runs from when it was asked for, not from the answer
        try:
            self.store.heartbeat(self._worker_id(), self.lease, self._state())
        except LeaseLostError:
            self._on_lost()
        else:
            if self._was_away:
                self._steady_at = time.monotonic() + 2 * self.every
            self._beaten_at, self._beaten_wall = asked_at

    def renewed(self) -> None:
        """Take in that a new lease was given."""
        self._beaten_at, self._beaten_wall = time.monotonic(), clock.now()

    @property
    def _was_away(self) -> bool:
        """Whether beats were missed: the store was out of reach, or the machine slept, which only one clock tells."""
        return max(time.monotonic() - self._beaten_at, clock.now() - self._beaten_wall) > 2 * self.every

    def rescue(self, crash_limit: int) -> None:
        """Take tasks from dead workers.

        Not right after it was away itself: it would find itself among the dead, and others that only had no chance yet
        to say that they live.
        """
        if self._was_away:
            self.beat()
        if time.monotonic() < self._steady_at:
            return
        for rescued in self.store.rescue(crash_limit):
            how = {"unspent": "had not begun", "suspect": "runs alone next", "dead": "is a dead letter now"}
            log.warning("task %d of lost worker %s %s", rescued.task_id, rescued.worker_id, how[rescued.outcome])
            if has_subscribers():
                from holdfast.record.events import TaskRescued  # noqa: PLC0415  # only subscribers need it

                publish(TaskRescued(*rescued))

    @staticmethod
    def _do(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  # done again the next time
            failure = classify(error)
            name = getattr(work, "__name__", "chore")
            log.error("%s failed (%s), tried again later: %s", name, failure.category, failure.message)
