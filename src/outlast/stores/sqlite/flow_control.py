"""Queues, cooldowns and periodic tasks in SQLite: what holds tasks back and what brings them."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from outlast import clock
from outlast.decide.breaker import OPENED_BY_HAND, OPENED_ELSEWHERE
from outlast.decide.limits import LimitState, ResourceLimit, admit_candidates, retry_places
from outlast.ports.read_rows import SILENT_AFTER, BreakerOpening, BreakerOrder, BreakerRow
from outlast.ports.rows import Cooldown, NewTask, QueueRow
from outlast.ports.store import LimitRequest, LimitRow
from outlast.sql_files import load_statements
from outlast.stores.rules import COOLDOWN_TAIL, LIMIT_SHOWN_FOR, CooldownState, busy_slots, limit_row, merge_cooldown
from outlast.stores.sqlite.connection import SqliteDatabase, milliseconds, now_ms, to_datetime
from outlast.stores.sqlite.tasks import add_tasks

SQL = load_statements(__package__)


class SqliteQueues:
    """The duty `Queues`."""

    db: SqliteDatabase

    def pause(self, queue: str) -> None:
        """Have nothing claimed from a queue."""
        self.db.write(lambda connection: connection.execute(SQL["pause_queue"], (queue,)))

    def resume(self, queue: str) -> None:
        """Have it claimed from again."""
        self.db.write(lambda connection: connection.execute(SQL["delete_queue"], (queue,)))

    def queues(self) -> list[QueueRow]:
        """Return the queues that exist or are paused."""
        rows = self.db.read(lambda connection: connection.execute(SQL["queues"], {"now": now_ms()}).fetchall())
        return [QueueRow(name, bool(paused), *numbers) for name, paused, *numbers in rows]


class SqliteCooldowns:
    """The duty `Cooldowns`."""

    db: SqliteDatabase

    def start_cooldown(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone from now on."""
        now = now_ms()
        answer = CooldownState(now + milliseconds(seconds), reason, int(capped))

        def work(connection: sqlite3.Connection) -> int:
            after = merge_cooldown(_cooldown_state(connection, resource), answer, now)
            connection.execute(SQL["save_cooldown"], {"resource": resource, **after._asdict()})
            return after.capped

        count = self.db.write(work)
        while (
            self.db.write(lambda connection: connection.execute(SQL["defer_cooling_tasks"], {"now": now}).rowcount) > 0
        ):
            pass
        return count

    def probe(self, resource: str, hold: float) -> bool:
        """Ask to be the one who tries a resource."""

        def work(connection: sqlite3.Connection) -> bool:
            now, known = now_ms(), _cooldown_state(connection, resource)
            if known is None or known.until > now:
                return known is None
            if known.capped:
                held = known._replace(until=now + milliseconds(hold), probing=True)
                connection.execute(SQL["save_cooldown"], {"resource": resource, **held._asdict()})
            return True

        return self.db.write(work)

    def end_cooldown(self, resource: str) -> None:
        """End a cooldown by hand."""
        values = {"resource": resource, "now": now_ms(), "late": milliseconds(COOLDOWN_TAIL)}

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["run_cooldown_tasks_now"], values)
            connection.execute(SQL["delete_cooldown"], values)

        self.db.write(work)

    def cooldowns(self) -> list[Cooldown]:
        """Return those that run."""
        rows = self.db.read(lambda connection: connection.execute(SQL["cooldowns"], (now_ms(),)).fetchall())
        return [Cooldown(row[0], cast(datetime, to_datetime(row[1])), *row[2:]) for row in rows]


def _cooldown_state(connection: sqlite3.Connection, resource: str) -> CooldownState | None:
    """Return what is known of a resource's cooldown, which may be over."""
    row = connection.execute(SQL["get_cooldown"], (resource,)).fetchone()
    return None if row is None else CooldownState._make(row)


class SqlitePeriodic:
    """The duty `Periodic`."""

    db: SqliteDatabase

    def now(self) -> datetime:
        """Return the time."""
        return cast(datetime, to_datetime(now_ms()))

    def set_periodic(self, first_runs: Mapping[str, float]) -> None:
        """Make known what there is."""
        now = now_ms()
        rows = [(name, now + milliseconds(seconds)) for name, seconds in first_runs.items()]
        self.db.write(lambda connection: connection.executemany(SQL["set_periodic"], rows))

    def due_periodic(self, names: Sequence[str]) -> list[tuple[str, datetime]]:
        """Return those whose time has come."""
        rows = self.db.read(lambda connection: connection.execute(SQL["due_periodic"], (now_ms(),)).fetchall())
        return [(name, cast(datetime, to_datetime(due))) for name, due in rows if name in names]

    def run_periodic(self, name: str, due: datetime, seconds: float, task: NewTask) -> bool:
        """Enqueue a task, if nobody else has done it for this time already."""
        now = now_ms()
        values = {"name": name, "due": round(due.timestamp() * 1000), "now": now, "next": now + milliseconds(seconds)}

        def work(connection: sqlite3.Connection) -> bool:
            if connection.execute(SQL["run_periodic"], values).rowcount != 1:
                return False
            add_tasks(connection, [task], now)
            return True

        return self.db.write(work)


# Limits of resources in SQLite: the write transaction is the lock.


class SqliteLimits:
    """The duty `Limits`."""

    db: SqliteDatabase

    def admit(self, asks: Sequence[LimitRequest]) -> dict[int, float]:
        """Let claimed tasks start as far as their resources allow."""

        def work(connection: sqlite3.Connection) -> dict[int, float]:
            waits: dict[int, float] = {}
            for ask in asks:
                waits |= _admit_request(connection, ask)
            return waits

        return self.db.write(work)

    def reserve_retries(self, limit: ResourceLimit, count: int) -> list[float]:
        """Give so many retries a place each."""

        def work(connection: sqlite3.Connection) -> list[float]:
            waits, standing = retry_places(limit, _limit_standing(connection, limit.resource), count, clock.now())
            _write_limit(connection, limit, standing)
            return waits

        return self.db.write(work)

    def limits(self) -> list[LimitRow]:
        """Return the limits that were asked for within a day."""
        now = clock.now()
        values = {"since": now - LIMIT_SHOWN_FOR}
        rows = self.db.read(lambda connection: connection.execute(SQL["limits"], values).fetchall())
        found = []
        for row in rows:
            settings, (running, *standing) = row[: len(ResourceLimit._fields)], row[len(ResourceLimit._fields) :]
            found.append(limit_row(ResourceLimit(*settings), LimitState(*standing), running, now, _seconds_to_datetime))
        return found


def _admit_request(connection: sqlite3.Connection, ask: LimitRequest) -> dict[int, float]:
    limit = ask.limit
    connection.execute(SQL["delete_stale_slots"], {"resource": limit.resource})
    taken = connection.execute(SQL["taken_slots"], (limit.resource,)).fetchall()
    weighed = admit_candidates(
        limit,
        _limit_standing(connection, limit.resource),
        ask.candidates,
        busy=busy_slots(ask, taken),
        mean=ask.mean,
        now=clock.now(),
        chance=clock.chance,
    )
    _write_limit(connection, limit, weighed.standing)
    if limit.concurrency is not None:
        rows = [(each.task_id, each.epoch, limit.resource) for each in weighed.admitted]
        connection.executemany(SQL["save_slot"], rows)
    return weighed.waits


def _limit_standing(connection: sqlite3.Connection, resource: str) -> LimitState | None:
    row = connection.execute(SQL["get_limit"], (resource,)).fetchone()
    return None if row is None else LimitState._make(row)


def _write_limit(connection: sqlite3.Connection, limit: ResourceLimit, standing: LimitState) -> None:
    connection.execute(SQL["save_limit"], limit._asdict() | standing._asdict())


def _seconds_to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# Breakers in SQLite, as processes tell of them and as people order them.


class SqliteBreakers:
    """The duty `Breakers`."""

    db: SqliteDatabase

    def report_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Write how the breakers of a process stand."""
        if not rows:
            return
        now = now_ms()
        values = [
            {
                "resource": resource,
                "process": process,
                "state": state,
                "until": None if seconds is None else now + milliseconds(seconds),
                "reason": reason,
                "leased": int(leased),
                "now": now,
            }
            for resource, state, seconds, reason in rows
        ]
        self.db.write(lambda connection: connection.executemany(SQL["report_breaker"], values))

    def forget_breakers(self, process: str) -> None:
        """Forget a process that ends."""
        self.db.write(lambda connection: connection.execute(SQL["delete_breakers"], (process,)))

    def breakers(self) -> list[BreakerRow]:
        """Return them by resource and process."""
        now = now_ms()
        values = {"now": now, "heard": now - milliseconds(SILENT_AFTER)}
        rows = self.db.read(lambda connection: connection.execute(SQL["breakers"], values).fetchall())
        return [
            BreakerRow(
                resource, process, state, to_datetime(until), reason, order, cast(datetime, to_datetime(updated_at))
            )
            for resource, process, state, until, reason, order, updated_at in rows
        ]

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Have the breakers of a resource opened or closed in all processes."""
        now = now_ms()
        until = None if seconds is None else now + milliseconds(seconds)
        values = {"resource": resource, "state": state, "until": until, "now": now}
        number = self.db.write(lambda connection: connection.execute(SQL["order_breaker"], values).fetchone()[0])
        return BreakerOrder(number, resource, state, seconds)

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders whose number is larger."""
        values = {"after": after, "now": now_ms()}
        rows = self.db.read(lambda connection: connection.execute(SQL["breaker_orders"], values).fetchall())
        return [BreakerOrder._make(row) for row in rows]

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of some resources other processes leave alone by their own judgement."""
        values = {
            "process": process,
            "resources": json.dumps(list(resources)),
            "by_hand": OPENED_BY_HAND,
            "elsewhere": OPENED_ELSEWHERE,
            "now": now_ms(),
        }
        rows = self.db.read(lambda connection: connection.execute(SQL["opened_breakers"], values).fetchall())
        return [BreakerOpening._make(row) for row in rows]
