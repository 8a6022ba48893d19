"""The heartbeat of a worker: renews its lease, and runs periodic duties such as the rescue of lost tasks."""

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import NamedTuple

from outlast import clock
from outlast.classify import classify
from outlast.errors import LeaseLostError
from outlast.ports.store import Store, limit_store_wait
from outlast.queue.logs import log
from outlast.record.bus import has_subscribers, publish


class PeriodicDuty(NamedTuple):
    """Something to be done every so often."""

    every: float
    work: Callable[[], object]


class LeaseHeartbeat:
    """Beats until it is stopped. A chore that fails is logged and done again the next time.

    Args:
        store: Where the lease is.
        worker_id: Tells whose; it changes when the lease was lost.
        lease: Seconds that one beat is worth.
        every: Seconds between two beats.
        state: Tells what the worker does, for people.
        on_lost: Called with the worker's id when its lease was lost.
    """

    def __init__(
        self,
        store: Store,
        worker_id: Callable[[], str],
        *,
        lease: float,
        every: float,
        state: Callable[[], str],
        on_lost: Callable[[str], object],
    ) -> None:
        """Begin with a lease that has just been given."""
        self.store, self.lease, self.every = store, lease, every
        self._worker_id = worker_id
        self.duties: list[PeriodicDuty] = []
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
        """Beat and do chores, each in its time; a chore that takes long holds up no beat."""
        Thread(target=self._beat_on, name="outlast-beat", daemon=True).start()
        due = [time.monotonic()] * len(self.duties)
        while not self._stop.wait(max(0.0, min(due) - time.monotonic()) if due else None):
            for place, chore in enumerate(self.duties):
                if time.monotonic() >= due[place]:
                    self._do(chore.work)
                    due[place] = time.monotonic() + chore.every

    def _beat_on(self) -> None:
        while not self._stop.wait(self.every):
            self._do(self.beat)

    def beat(self) -> None:
        """Renew the lease."""
        asked_at = time.monotonic(), clock.now()  # the lease runs from when it was asked for, not from the answer
        worker_id = self._worker_id()
        try:
            self.store.heartbeat(worker_id, self.lease, self._state())
        except LeaseLostError:
            self._on_lost(worker_id)
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
        with limit_store_wait(self.every):  # who waited for a store that is down would be the first when it is back
            found = self.store.rescue(crash_limit)
        for rescued in found:
            how = {"unspent": "had not started", "suspect": "runs isolated next", "dead": "is now a dead letter"}
            log.warning("task %d of lost worker %s %s", rescued.task_id, rescued.worker_id, how[rescued.outcome])
            if has_subscribers():
                from outlast.record.events import TaskRescued  # noqa: PLC0415  # only subscribers need it

                publish(TaskRescued(*rescued))

    @staticmethod
    def _do(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  # done again the next time
            failure = classify(error)
            name = getattr(getattr(work, "func", work), "__name__", "chore")  # a partial has none of its own
            log.error("%s failed (%s), retrying later: %s", name, failure.category, failure.message)
