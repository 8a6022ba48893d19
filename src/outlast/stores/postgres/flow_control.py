"""Queues, cooldowns, periodic tasks, limits and breakers in PostgreSQL."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from outlast.decide.limits import FIRST_MEAN, LimitState, ResourceLimit, retry_places
from outlast.ports.read_rows import BreakerOrder
from outlast.ports.rows import Enqueued, NewTask
from outlast.ports.store import LimitRequest
from outlast.stores.postgres.connection import PostgresCursor, PostgresDatabase, dumps, in_utc
from outlast.stores.postgres.tasks import add_tasks
from outlast.stores.rules import COOLDOWN_TAIL, admit_requests
from outlast.stores.shared_methods import SharedFlowControl

_LOCK_TIMEOUT = "2s"  # to wait for locked rows; the worker does nothing else meanwhile
_IDLE_TIMEOUT = "10s"  # for the lock holder: its process may be stopped or its machine gone
T = TypeVar("T")
LimitStates = dict[str, LimitState]
Slots = dict[str, list[tuple[int, int]]]


class PostgresFlowControl(SharedFlowControl):
    """Implements `Queues`, `Cooldowns`, `Periodic`, `Limits` and `Breakers`."""

    db: PostgresDatabase

    def end_cooldown(self, resource: str) -> None:
        """End a cooldown by hand."""
        self.db.change("end_cooldown", {"resource": resource, "late": COOLDOWN_TAIL})
        self.db.notify()
        self._release_sources(resource)

    def now(self) -> datetime:
        """Return the server's time."""
        return in_utc(self.db.value("server_time"))

    def run_periodic(
        self, name: str, due: datetime, seconds: float, task: NewTask, *, wait: bool = False
    ) -> Enqueued | None:
        """Enqueue a periodic task, unless another worker has already done so, or it has to wait."""
        values = {"name": name, "due": due, "seconds": float(seconds), "wait": wait}
        values |= {"task_type": task.task_type, "unique_key": task.unique_key}
        with self.db.transaction() as cursor:
            if cursor.change("run_periodic", values) != 1:
                return None
            (enqueued,) = add_tasks(cursor, [task])
            cursor.change("save_periodic_task", {"name": name, "task": enqueued.id})
            return enqueued

    def admit(self, requests: Sequence[LimitRequest]) -> dict[int, float]:
        """Admit claimed tasks as far as the limits of their resources allow."""
        names = sorted({request.limit.resource for request in requests})

        def work(cursor: PostgresCursor, known: LimitStates) -> dict[int, float]:
            now, slots = _live_slots(cursor, names)
            waits, fresh = admit_requests(requests, known, slots, now)
            _save_limits(cursor, [request.limit for request in requests], known, fresh)
            return waits

        return self._under_lock(names, work)

    def reserve_retries(self, limit: ResourceLimit, count: int) -> list[float]:
        """Reserve places for retries."""

        def work(cursor: PostgresCursor, known: LimitStates) -> list[float]:
            now, _ = _live_slots(cursor, [])
            waits, known[limit.resource] = retry_places(limit, known[limit.resource], count, now)
            _save_limits(cursor, [limit], known, [])
            return waits

        return self._under_lock([limit.resource], work)

    def _under_lock(self, names: Sequence[str], work: Callable[[PostgresCursor, LimitStates], T]) -> T:
        """Run work in a transaction that locks the rows of these resources.

        Missing rows are added in a separate transaction: waiting for another's insert while holding locks could
        deadlock.
        """
        values = {"resources": list(names), "wait": _LOCK_TIMEOUT, "silence": _IDLE_TIMEOUT}
        while True:
            with self.db.transaction() as cursor:
                rows = cursor.fetch("lock_limits", values)
                if len(rows) == len(names):
                    return work(cursor, {row[0]: LimitState._make(row[1:]) for row in rows})
            self.db.change("add_limits", {"resources": list(names), "mean": FIRST_MEAN})

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Open or close the breakers of a resource in all processes."""
        values = {"resource": resource, "state": state, "seconds": None if seconds is None else float(seconds)}
        with self.db.transaction() as cursor:
            cursor.change("lock_breaker_orders")
            ((number,),) = cursor.fetch("order_breaker", values)
        return BreakerOrder(number, resource, state, seconds)


def _live_slots(cursor: PostgresCursor, names: Sequence[str]) -> tuple[float, Slots]:
    """Return the current time and the taken slots; slots of tasks that no longer run are deleted."""
    rows = cursor.fetch("live_slots", {"resources": list(names)})
    slots: Slots = {}
    for _, task_id, epoch, resource in rows:
        if task_id is not None:
            slots.setdefault(resource, []).append((task_id, epoch))
    return rows[0][0], slots


def _save_limits(
    cursor: PostgresCursor, limits: Sequence[ResourceLimit], known: LimitStates, slots: Sequence[tuple[int, int, str]]
) -> None:
    rows = [each._asdict() | known[each.resource]._asdict() for each in limits]
    records = [{"task_id": task_id, "epoch": epoch, "resource": resource} for task_id, epoch, resource in slots]
    cursor.change("save_limits", {"limits": dumps(rows), "slots": dumps(records)})
