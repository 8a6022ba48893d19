"""Queues, cooldowns, periodic tasks, limits and breakers in SQLite."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from sqlite3 import Connection

from outlast import clock
from outlast.decide.limits import LimitState, ResourceLimit, retry_places
from outlast.ports.read_rows import BreakerOrder
from outlast.ports.rows import Enqueued, NewTask
from outlast.ports.store import LimitRequest
from outlast.stores.rules import COOLDOWN_TAIL, admit_requests
from outlast.stores.shared_methods import SharedFlowControl
from outlast.stores.sqlite.connection import (
    SQL,
    SqliteDatabase,
    dumps,
    execute,
    milliseconds,
    ms_from_now,
    now_ms,
    to_datetime,
)
from outlast.stores.sqlite.tasks import add_tasks


class SqliteFlowControl(SharedFlowControl):
    """Implements `Queues`, `Cooldowns`, `Periodic`, `Limits` and `Breakers`. Limits are locked by the transaction."""

    db: SqliteDatabase

    def end_cooldown(self, resource: str) -> None:
        """End a cooldown by hand."""
        values = {"resource": resource, "now": now_ms(), "late": milliseconds(COOLDOWN_TAIL)}

        def work(connection: Connection) -> None:
            execute(connection, "run_cooldown_tasks_now", values)
            execute(connection, "delete_cooldown", values)

        self.db.write(work)
        self._release_sources(resource)

    def now(self) -> datetime:
        """Return the current time."""
        return to_datetime(now_ms())

    def run_periodic(
        self, name: str, due: datetime, seconds: float, task: NewTask, *, wait: bool = False
    ) -> Enqueued | None:
        """Enqueue a periodic task, unless another worker has already done so, or it has to wait."""
        now = now_ms()
        values = {"name": name, "due": round(due.timestamp() * 1000), "now": now, "next": now + milliseconds(seconds)}

        values |= {"wait": wait, "task_type": task.task_type, "unique_key": task.unique_key}

        def work(connection: Connection) -> Enqueued | None:
            if execute(connection, "run_periodic", values).rowcount != 1:
                return None
            (enqueued,) = add_tasks(connection, [task], now)
            execute(connection, "save_periodic_task", {"name": name, "task": enqueued.id})
            return enqueued

        return self.db.write(work)

    def admit(self, requests: Sequence[LimitRequest]) -> dict[int, float]:
        """Admit claimed tasks as far as the limits of their resources allow."""

        def work(connection: Connection) -> dict[int, float]:
            names, slots = dumps([each.limit.resource for each in requests]), dict[str, list[tuple[int, int]]]()
            execute(connection, "delete_stale_slots", {"resources": names})
            for task_id, epoch, resource in execute(connection, "taken_slots", {"resources": names}):
                slots.setdefault(resource, []).append((task_id, epoch))
            known = _limit_states(connection, names)
            waits, fresh = admit_requests(requests, known, slots, clock.now())
            _write_limits(connection, [each.limit for each in requests], known)
            connection.executemany(SQL["save_slot"], fresh)
            return waits

        return self.db.write(work)

    def reserve_retries(self, limit: ResourceLimit, count: int) -> list[float]:
        """Reserve places for retries."""

        def work(connection: Connection) -> list[float]:
            known = _limit_states(connection, dumps([limit.resource]))
            waits, known[limit.resource] = retry_places(limit, known.get(limit.resource), count, clock.now())
            _write_limits(connection, [limit], known)
            return waits

        return self.db.write(work)

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Open or close the breakers of a resource in all processes."""
        until = None if seconds is None else ms_from_now(seconds)
        ((number,),) = self.db.fetch_changed("order_breaker", {"resource": resource, "state": state, "until": until})
        return BreakerOrder(number, resource, state, seconds)


def _limit_states(connection: Connection, resources: str) -> dict[str, LimitState]:
    rows = execute(connection, "get_limits", {"resources": resources}).fetchall()
    return {row[0]: LimitState._make(row[1:]) for row in rows}


def _write_limits(connection: Connection, limits: Sequence[ResourceLimit], known: Mapping[str, LimitState]) -> None:
    connection.executemany(SQL["save_limit"], [(*each, *known[each.resource]) for each in limits])
