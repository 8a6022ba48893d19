"""Queues, cooldowns and periodic tasks in PostgreSQL: what holds tasks back and what brings them."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from outlast import clock
from outlast.decide.breaker import OPENED_BY_HAND, OPENED_ELSEWHERE
from outlast.decide.limits import FIRST_MEAN, Candidate, LimitState, ResourceLimit, admit_candidates, retry_places
from outlast.ports.read_rows import SILENT_AFTER, BreakerOpening, BreakerOrder, BreakerRow
from outlast.ports.rows import Cooldown, NewTask, QueueRow
from outlast.ports.store import LimitRequest, LimitRow
from outlast.stores.postgres.connection import PostgresDatabase, in_utc
from outlast.stores.postgres.tasks import add_tasks
from outlast.stores.rules import COOLDOWN_TAIL, LIMIT_SHOWN_FOR, busy_slots, limit_row


class PostgresQueues:
    """The duty `Queues`."""

    db: PostgresDatabase

    def pause(self, queue: str) -> None:
        """Have nothing claimed from a queue."""
        self.db.change("set_queue", {"name": queue, "paused": True})

    def resume(self, queue: str) -> None:
        """Have it claimed from again."""
        self.db.change("delete_queue", {"name": queue})
        self.db.fetch("notify")

    def queues(self) -> list[QueueRow]:
        """Return the queues that exist or are paused."""
        return [QueueRow._make(row) for row in self.db.fetch("queues")]


class PostgresCooldowns:
    """The duty `Cooldowns`."""

    db: PostgresDatabase

    def start_cooldown(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone from now on; tell how many capped answers came in a row."""
        values = {"resource": resource, "seconds": float(seconds), "reason": reason, "capped": int(capped)}
        times: int = self.db.fetch("start_cooldown", values)[0][0]
        while self.db.change("defer_cooling_tasks") > 0:
            pass
        return times

    def probe(self, resource: str, hold: float) -> bool:
        """Ask to be the one who tries a resource after the end of a capped cooldown."""
        return bool(self.db.fetch("start_probe", {"resource": resource, "hold": float(hold)})[0][0])

    def end_cooldown(self, resource: str) -> None:
        """End a cooldown by hand."""
        self.db.change("end_cooldown", {"resource": resource, "late": COOLDOWN_TAIL})
        self.db.fetch("notify")

    def cooldowns(self) -> list[Cooldown]:
        """Return those that run."""
        return [Cooldown._make(in_utc(row)) for row in self.db.fetch("cooldowns")]


class PostgresPeriodic:
    """The duty `Periodic`."""

    db: PostgresDatabase

    def now(self) -> datetime:
        """Return the server's time."""
        now: datetime = in_utc(self.db.fetch("server_time")[0])[0]
        return now

    def set_periodic(self, first_runs: Mapping[str, float]) -> None:
        """Make known what there is."""
        values = {"names": list(first_runs), "seconds": [float(seconds) for seconds in first_runs.values()]}
        self.db.change("set_periodic", values)

    def due_periodic(self, names: Sequence[str]) -> list[tuple[str, datetime]]:
        """Return those whose time has come."""
        rows = self.db.fetch("due_periodic", {"names": list(names)})
        return [(name, due) for name, due in map(in_utc, rows)]

    def run_periodic(self, name: str, due: datetime, seconds: float, task: NewTask) -> bool:
        """Enqueue a task, if nobody else has done it for this time already."""
        values = {"name": name, "due": due, "seconds": float(seconds)}
        with self.db.connection() as connection, connection.transaction():
            if connection.execute(self.db.sql["run_periodic"], values).rowcount != 1:
                return False
            add_tasks(connection, self.db.sql, [task])
        return True


# Limits of resources in PostgreSQL: a row per resource is the lock, and the server's clock is the one that counts.

_dumps = json.JSONEncoder(separators=(",", ":")).encode
_LOCK_TIMEOUT = "2s"  # for rows that another one holds; a worker does nothing else meanwhile
_IDLE_TIMEOUT = "10s"  # of who holds them: a process that was stopped, or a machine that is gone
T = TypeVar("T")
Standings = dict[str, LimitState]
Slots = dict[str, list[tuple[int, int]]]


class PostgresLimits:
    """The duty `Limits`."""

    db: PostgresDatabase

    def admit(self, asks: Sequence[LimitRequest]) -> dict[int, float]:
        """Let claimed tasks start as far as their resources allow."""
        names = sorted({ask.limit.resource for ask in asks})

        def work(cursor: Any, known: Standings) -> dict[int, float]:
            now, slots = self._live(cursor, names)
            waits, fresh = dict[int, float](), list[dict[str, Any]]()
            for ask in asks:
                name = ask.limit.resource
                taken = slots.setdefault(name, [])
                weighed = admit_candidates(
                    ask.limit,
                    known[name],
                    ask.candidates,
                    busy=busy_slots(ask, taken),
                    mean=ask.mean,
                    now=now,
                    chance=clock.chance,
                )
                known[name] = weighed.standing
                waits |= weighed.waits
                if ask.limit.concurrency is not None:
                    taken += [(each.task_id, each.epoch) for each in weighed.admitted]
                    fresh += [_slot_record(each, name) for each in weighed.admitted]
            self._keep(cursor, [ask.limit for ask in asks], known, fresh)
            return waits

        return self._under_lock(names, work)

    def reserve_retries(self, limit: ResourceLimit, count: int) -> list[float]:
        """Give so many retries a place each."""

        def work(cursor: Any, known: Standings) -> list[float]:
            now, _ = self._live(cursor, [])
            waits, known[limit.resource] = retry_places(limit, known[limit.resource], count, now)
            self._keep(cursor, [limit], known, [])
            return waits

        return self._under_lock([limit.resource], work)

    def limits(self) -> list[LimitRow]:
        """Return the limits that were asked for within a day."""
        found = []
        for row in self.db.fetch("limits", {"seconds": LIMIT_SHOWN_FOR}):
            settings, (running, now, *standing) = row[: len(ResourceLimit._fields)], row[len(ResourceLimit._fields) :]
            found.append(limit_row(ResourceLimit(*settings), LimitState(*standing), running, now, _to_datetime))
        return found

    def _under_lock(self, names: Sequence[str], work: Callable[[Any, Standings], T]) -> T:
        """Do something in a transaction that holds the rows of some resources.

        Rows that are missing are added in a transaction of their own: to wait for another's insert while rows are
        locked could be for ever.
        """
        values = {"resources": list(names), "wait": _LOCK_TIMEOUT, "silence": _IDLE_TIMEOUT}
        while True:
            with self.db.connection() as connection, connection.transaction():
                cursor = connection.cursor(binary=True)
                rows = cursor.execute(self.db.sql["lock_limits"], values).fetchall()
                if len(rows) == len(names):
                    return work(cursor, {row[0]: LimitState._make(row[1:]) for row in rows})
            self.db.change("add_limits", {"resources": list(names), "mean": FIRST_MEAN})

    def _live(self, cursor: Any, names: Sequence[str]) -> tuple[float, Slots]:
        """Return the time and the slots that are taken; those that are not any more are deleted."""
        values = {"resources": list(names)}
        rows = cursor.execute(self.db.sql["live_slots"], values, prepare=False).fetchall()
        slots: Slots = {}
        for _, task_id, epoch, resource in rows:
            if task_id is not None:
                slots.setdefault(resource, []).append((task_id, epoch))
        return rows[0][0], slots

    def _keep(
        self, cursor: Any, limits: Sequence[ResourceLimit], known: Standings, slots: Sequence[dict[str, Any]]
    ) -> None:
        rows = [each._asdict() | known[each.resource]._asdict() for each in limits]
        cursor.execute(self.db.sql["save_limits"], {"limits": _dumps(rows), "slots": _dumps(list(slots))})


def _slot_record(candidate: Candidate, resource: str) -> dict[str, Any]:
    return {"task_id": candidate.task_id, "epoch": candidate.epoch, "resource": resource}


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# Breakers in PostgreSQL, as processes tell of them and as people order them.

_REPORTED_FIELDS = ("resource", "state", "seconds", "reason")


class PostgresBreakers:
    """The duty `Breakers`."""

    db: PostgresDatabase

    def report_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Write how the breakers of a process stand; of one that is named twice the last word counts."""
        if rows:
            told = {row[0]: dict(zip(_REPORTED_FIELDS, row, strict=True)) for row in rows}
            values = {"process": process, "rows": _dumps([*told.values()]), "leased": leased}
            self.db.change("report_breakers", values)

    def forget_breakers(self, process: str) -> None:
        """Forget a process that ends."""
        self.db.change("delete_breakers", {"process": process})

    def breakers(self) -> list[BreakerRow]:
        """Return them by resource and process."""
        return [BreakerRow._make(in_utc(row)) for row in self.db.fetch("breakers", {"silent": SILENT_AFTER})]

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Have the breakers of a resource opened or closed in all processes."""
        values = {"resource": resource, "state": state, "seconds": None if seconds is None else float(seconds)}
        with self.db.connection() as connection, connection.transaction():
            connection.execute(self.db.sql["lock_breaker_orders"])
            number: int = connection.execute(self.db.sql["order_breaker"], values).fetchall()[0][0]
        return BreakerOrder(number, resource, state, seconds)

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders whose number is larger."""
        return [BreakerOrder._make(row) for row in self.db.fetch("breaker_orders", {"after": after})]

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of some resources other processes leave alone by their own judgement."""
        values = {
            "process": process,
            "resources": list(resources),
            "by_hand": OPENED_BY_HAND,
            "elsewhere": OPENED_ELSEWHERE,
        }
        return [BreakerOpening._make(row) for row in self.db.fetch("opened_breakers", values)]
