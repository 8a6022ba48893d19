"""The heartbeat of a worker: renews its lease, and runs periodic duties such as the rescue of lost tasks."""

import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import NamedTuple

from outlast import clock
from outlast.classify import classify
from outlast.errors import LeaseLostError
from outlast.ports.rows import WorkerRow
from outlast.ports.store import Store, limit_store_wait
from outlast.queue.failure_groups import GROUP_ALERT_EVERY, GroupAlerts
from outlast.queue.logs import log
from outlast.queue.replay import REPLAY_EVERY, Replayer
from outlast.queue.settings import WorkerSettings
from outlast.record import bus
from outlast.record.bus import publish

_FOREVER = 1e9  # seconds: keep all finished tasks
_PRUNE_EVERY = 60.0  # seconds
_ROLL_UP_EVERY = 5.0  # seconds


def register_worker(store: Store, worker_id: str, name: str, queues: tuple[str, ...], slots: int, lease: float) -> None:
    """Register a worker of this process, with a lease of so many seconds."""
    now = datetime.now(UTC)
    row = WorkerRow(
        worker_id, name, socket.gethostname(), os.getpid(), queues, slots, "running", 0,
        alive=True, started_at=now, heartbeat_at=now,
    )  # fmt: skip
    store.register(row, lease)


class PeriodicDuty(NamedTuple):
    """Work to do again and again, `every` so many seconds."""

    every: float
    work: Callable[[], object]


class LeaseHeartbeat:
    """Renews the lease of a worker until it is stopped. A duty that fails is logged and done again the next time.

    Args:
        store: The store with the lease.
        worker_id: Returns the id of the worker, which changes after a lost lease.
        lease: Seconds that a heartbeat renews the lease for.
        every: Seconds between two heartbeats.
        state: Returns what the worker does, for people.
        on_lost: Called with the worker's id when its lease was lost.

    Attributes:
        duties: Work to do again and again; set before `run`.
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
        self.store, self.lease, self.every = store, lease, every
        self.worker_id = worker_id
        self.duties: list[PeriodicDuty] = []
        self._state, self._on_lost = state, on_lost
        self._stop = Event()
        self._steady_at = 0.0
        self.renewed()

    @property
    def holds(self) -> bool:
        """Whether the lease is certainly valid. Without it, nothing may be claimed."""
        return time.monotonic() - self._beaten_at < self.lease - self.every / 2

    def stop(self) -> None:
        """Stop the heartbeats and duties."""
        self._stop.set()

    def run(self) -> None:
        """Renew the lease and do the duties until `stop`. A slow duty delays no heartbeat."""
        Thread(target=self._keep_beating, name="outlast-beat", daemon=True).start()
        due = [time.monotonic()] * len(self.duties)
        while not self._stop.wait(max(0.0, min(due) - time.monotonic()) if due else None):
            for place, duty in enumerate(self.duties):
                if time.monotonic() >= due[place]:
                    _do_safely(duty.work)
                    due[place] = time.monotonic() + duty.every

    def add_fleet_duties(
        self, *, crash_limit: int, alert_age: float | None, check_suspects: Callable[[], object]
    ) -> None:
        """Add what every worker does for the fleet: rescue lost tasks, sum up counters, continue replays, raise alerts.

        Args:
            crash_limit: How often a suspect may crash its process.
            alert_age: Seconds after which the oldest dead letter raises an alert; None for never.
            check_suspects: Looks for due suspects.
        """
        often = min(self.every, self.store.rescue_every)
        self.duties += [
            PeriodicDuty(often, partial(self.rescue, crash_limit)),
            PeriodicDuty(often, check_suspects),
            PeriodicDuty(_ROLL_UP_EVERY, self.store.roll_up),
            PeriodicDuty(REPLAY_EVERY, Replayer(self.store, self.worker_id).advance_replays),
            PeriodicDuty(GROUP_ALERT_EVERY, GroupAlerts(self.store, alert_age).check_groups),
        ]

    def add_pruning(self, settings: WorkerSettings) -> None:
        """Add the removal of finished tasks and dead letters that are older than the settings say."""

        def prune() -> None:
            count = self.store.prune(done_before=_FOREVER if settings.keep_done is None else settings.keep_done)
            if count:
                log.info("pruned %d finished tasks and expired results", count)
            if settings.keep_dead is not None:
                count = self.store.prune_dead_letters(older_than=settings.keep_dead)
                if count:
                    log.warning("discarded %d dead letters older than %.0f s", count, settings.keep_dead)

        self.duties.append(PeriodicDuty(_PRUNE_EVERY, prune))

    def _keep_beating(self) -> None:
        while not self._stop.wait(self.every):
            _do_safely(self.beat)

    def beat(self) -> None:
        """Renew the lease."""
        asked_at = time.monotonic(), clock.now()  # the lease runs from the request, not from the answer
        worker_id = self.worker_id()
        try:
            self.store.heartbeat(worker_id, self.lease, self._state())
        except LeaseLostError:
            self._on_lost(worker_id)
        else:
            if self._was_away:
                self._steady_at = time.monotonic() + 2 * self.every
            self._beaten_at, self._beaten_wall = asked_at

    def renewed(self) -> None:
        """Record that the store has just given a lease."""
        self._beaten_at, self._beaten_wall = time.monotonic(), clock.now()

    @property
    def _was_away(self) -> bool:
        """Whether heartbeats were missed: the store was not available, or the machine slept, which one clock shows."""
        return max(time.monotonic() - self._beaten_at, clock.now() - self._beaten_wall) > 2 * self.every

    def rescue(self, crash_limit: int) -> None:
        """Rescue the tasks of dead workers.

        Not right after this worker missed heartbeats: it would count as dead itself, and so would others that have had
        no chance to renew their leases yet.
        """
        if self._was_away:
            self.beat()
        if time.monotonic() < self._steady_at:
            return
        with limit_store_wait(self.every):  # else it would be the first call when the store is back
            found = self.store.rescue(crash_limit)
        for rescued in found:
            how = {"unspent": "had not started", "suspect": "runs isolated next", "dead": "is now a dead letter"}
            log.warning("task %d of lost worker %s %s", rescued.task_id, rescued.worker_id, how[rescued.outcome])
            if bus.subscribers:
                from outlast.record.events import TaskRescued  # noqa: PLC0415  # only subscribers need it

                publish(TaskRescued(*rescued))


def _do_safely(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:  # noqa: BLE001  # done again the next time
        failure = classify(error)
        name = getattr(getattr(work, "func", work), "__name__", "duty")  # a partial has no name
        log.error("%s failed (%s), retrying later: %s", name, failure.category, failure.message)
