"""Queues, cooldowns, periodic tasks, limits and breakers in SQLite."""

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
    """Implements `Queues`."""

    db: SqliteDatabase

    def pause(self, queue: str) -> None:
        """Pause a queue."""
        self.db.write(lambda connection: connection.execute(SQL["pause_queue"], (queue,)))

    def resume(self, queue: str) -> None:
        """Resume a paused queue."""
        self.db.write(lambda connection: connection.execute(SQL["delete_queue"], (queue,)))

    def queues(self) -> list[QueueRow]:
        """Return the queues that have tasks or are paused."""
        rows = self.db.read(lambda connection: connection.execute(SQL["queues"], {"now": now_ms()}).fetchall())
        return [QueueRow(name, bool(paused), *numbers) for name, paused, *numbers in rows]


class SqliteCooldowns:
    """Implements `Cooldowns`."""

    db: SqliteDatabase

    def start_cooldown(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Start a cooldown and defer the tasks of its resource."""
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
        """Ask for permission to call a resource after a capped cooldown."""

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
        """Return the cooldowns that run now."""
        rows = self.db.read(lambda connection: connection.execute(SQL["cooldowns"], (now_ms(),)).fetchall())
        return [Cooldown(row[0], cast(datetime, to_datetime(row[1])), *row[2:]) for row in rows]


def _cooldown_state(connection: sqlite3.Connection, resource: str) -> CooldownState | None:
    """Return the stored cooldown of a resource, running or over; None if there is none."""
    row = connection.execute(SQL["get_cooldown"], (resource,)).fetchone()
    return None if row is None else CooldownState._make(row)


class SqlitePeriodic:
    """Implements `Periodic`."""

    db: SqliteDatabase

    def now(self) -> datetime:
        """Return the current time."""
        return cast(datetime, to_datetime(now_ms()))

    def set_periodic(self, first_runs: Mapping[str, float]) -> None:
        """Register periodic tasks."""
        now = now_ms()
        rows = [(name, now + milliseconds(seconds)) for name, seconds in first_runs.items()]
        self.db.write(lambda connection: connection.executemany(SQL["set_periodic"], rows))

    def due_periodic(self, names: Sequence[str]) -> list[tuple[str, datetime]]:
        """Return the periodic tasks that are due."""
        rows = self.db.read(lambda connection: connection.execute(SQL["due_periodic"], (now_ms(),)).fetchall())
        return [(name, cast(datetime, to_datetime(due))) for name, due in rows if name in names]

    def run_periodic(self, name: str, due: datetime, seconds: float, task: NewTask) -> bool:
        """Enqueue a periodic task, unless another worker has already done so."""
        now = now_ms()
        values = {"name": name, "due": round(due.timestamp() * 1000), "now": now, "next": now + milliseconds(seconds)}

        def work(connection: sqlite3.Connection) -> bool:
            if connection.execute(SQL["run_periodic"], values).rowcount != 1:
                return False
            add_tasks(connection, [task], now)
            return True

        return self.db.write(work)


class SqliteLimits:
    """Implements `Limits`. The write transaction is the lock."""

    db: SqliteDatabase

    def admit(self, requests: Sequence[LimitRequest]) -> dict[int, float]:
        """Admit claimed tasks as far as the limits of their resources allow."""

        def work(connection: sqlite3.Connection) -> dict[int, float]:
            waits: dict[int, float] = {}
            for request in requests:
                waits |= _admit_request(connection, request)
            return waits

        return self.db.write(work)

    def reserve_retries(self, limit: ResourceLimit, count: int) -> list[float]:
        """Reserve places for retries."""

        def work(connection: sqlite3.Connection) -> list[float]:
            waits, state = retry_places(limit, _limit_state(connection, limit.resource), count, clock.now())
            _write_limit(connection, limit, state)
            return waits

        return self.db.write(work)

    def limits(self) -> list[LimitRow]:
        """Return the limits that were used within the last day."""
        now = clock.now()
        values = {"since": now - LIMIT_SHOWN_FOR}
        rows = self.db.read(lambda connection: connection.execute(SQL["limits"], values).fetchall())
        found = []
        for row in rows:
            settings, (running, *state) = row[: len(ResourceLimit._fields)], row[len(ResourceLimit._fields) :]
            found.append(limit_row(ResourceLimit(*settings), LimitState(*state), running, now, _seconds_to_datetime))
        return found


def _admit_request(connection: sqlite3.Connection, request: LimitRequest) -> dict[int, float]:
    limit = request.limit
    connection.execute(SQL["delete_stale_slots"], {"resource": limit.resource})
    taken = connection.execute(SQL["taken_slots"], (limit.resource,)).fetchall()
    decision = admit_candidates(
        limit,
        _limit_state(connection, limit.resource),
        request.candidates,
        busy=busy_slots(request, taken),
        mean=request.mean,
        now=clock.now(),
        chance=clock.chance,
    )
    _write_limit(connection, limit, decision.standing)
    if limit.concurrency is not None:
        rows = [(each.task_id, each.epoch, limit.resource) for each in decision.admitted]
        connection.executemany(SQL["save_slot"], rows)
    return decision.waits


def _limit_state(connection: sqlite3.Connection, resource: str) -> LimitState | None:
    row = connection.execute(SQL["get_limit"], (resource,)).fetchone()
    return None if row is None else LimitState._make(row)


def _write_limit(connection: sqlite3.Connection, limit: ResourceLimit, state: LimitState) -> None:
    connection.execute(SQL["save_limit"], limit._asdict() | state._asdict())


def _seconds_to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class SqliteBreakers:
    """Implements `Breakers`."""

    db: SqliteDatabase

    def report_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Save the breaker states of a process."""
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
        """Delete the breaker states of a process that ends."""
        self.db.write(lambda connection: connection.execute(SQL["delete_breakers"], (process,)))

    def breakers(self) -> list[BreakerRow]:
        """Return the breaker states by resource and process."""
        now = now_ms()
        values = {"now": now, "reported_since": now - milliseconds(SILENT_AFTER)}
        rows = self.db.read(lambda connection: connection.execute(SQL["breakers"], values).fetchall())
        return [
            BreakerRow(
                resource, process, state, to_datetime(until), reason, order, cast(datetime, to_datetime(updated_at))
            )
            for resource, process, state, until, reason, order, updated_at in rows
        ]

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Open or close the breakers of a resource in all processes."""
        now = now_ms()
        until = None if seconds is None else now + milliseconds(seconds)
        values = {"resource": resource, "state": state, "until": until, "now": now}
        number = self.db.write(lambda connection: connection.execute(SQL["order_breaker"], values).fetchone()[0])
        return BreakerOrder(number, resource, state, seconds)

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders with a larger number."""
        values = {"after": after, "now": now_ms()}
        rows = self.db.read(lambda connection: connection.execute(SQL["breaker_orders"], values).fetchall())
        return [BreakerOrder._make(row) for row in rows]

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of these resources other processes have opened because of failures."""
        values = {
            "process": process,
            "resources": json.dumps(list(resources)),
            "by_hand": OPENED_BY_HAND,
            "elsewhere": OPENED_ELSEWHERE,
            "now": now_ms(),
        }
        rows = self.db.read(lambda connection: connection.execute(SQL["opened_breakers"], values).fetchall())
        return [BreakerOpening._make(row) for row in rows]
