"""Queues, cooldowns and periodic tasks in SQLite: what holds tasks back and what brings them."""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from outlast.ports.rows import Cooldown, NewTask, QueueRow
from outlast.sql_files import load_statements
from outlast.stores.cooled import LATE, Cooled, cooled
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.tasks import add
from outlast.stores.sqlite.times import milliseconds, moment, now_ms

__all__ = ["SqliteCooldowns", "SqlitePeriodic", "SqliteQueues"]

SQL = load_statements(__package__)


class SqliteQueues:
    """The duty `Queues`."""

    db: Database

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

    db: Database

    def cool(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone from now on."""
        now = now_ms()
        answer = Cooled(now + milliseconds(seconds), reason, int(capped))

        def work(connection: sqlite3.Connection) -> int:
            after = cooled(_known(connection, resource), answer, now)
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
            now, known = now_ms(), _known(connection, resource)
            if known is None or known.until > now:
                return known is None
            if known.capped:
                held = known._replace(until=now + milliseconds(hold), probing=True)
                connection.execute(SQL["save_cooldown"], {"resource": resource, **held._asdict()})
            return True

        return self.db.write(work)

    def warm(self, resource: str) -> None:
        """End a cooldown by hand."""
        values = {"resource": resource, "now": now_ms(), "late": milliseconds(LATE)}

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["run_cooldown_tasks_now"], values)
            connection.execute(SQL["delete_cooldown"], values)

        self.db.write(work)

    def cooldowns(self) -> list[Cooldown]:
        """Return those that run."""
        rows = self.db.read(lambda connection: connection.execute(SQL["cooldowns"], (now_ms(),)).fetchall())
        return [Cooldown(row[0], cast(datetime, moment(row[1])), *row[2:]) for row in rows]


def _known(connection: sqlite3.Connection, resource: str) -> Cooled | None:
    """Return what is known of a resource's cooldown, which may be over."""
    row = connection.execute(SQL["get_cooldown"], (resource,)).fetchone()
    return None if row is None else Cooled._make(row)


class SqlitePeriodic:
    """The duty `Periodic`."""

    db: Database

    def now(self) -> datetime:
        """Return the time."""
        return cast(datetime, moment(now_ms()))

    def set_periodic(self, first_runs: Mapping[str, float]) -> None:
        """Make known what there is."""
        now = now_ms()
        rows = [(name, now + milliseconds(seconds)) for name, seconds in first_runs.items()]
        self.db.write(lambda connection: connection.executemany(SQL["set_periodic"], rows))

    def due_periodic(self, names: Sequence[str]) -> list[tuple[str, datetime]]:
        """Return those whose time has come."""
        rows = self.db.read(lambda connection: connection.execute(SQL["due_periodic"], (now_ms(),)).fetchall())
        return [(name, cast(datetime, moment(due))) for name, due in rows if name in names]

    def run_periodic(self, name: str, due: datetime, seconds: float, task: NewTask) -> bool:
        """Enqueue a task, if nobody else has done it for this time already."""
        now = now_ms()
        values = {"name": name, "due": round(due.timestamp() * 1000), "now": now, "next": now + milliseconds(seconds)}

        def work(connection: sqlite3.Connection) -> bool:
            if connection.execute(SQL["run_periodic"], values).rowcount != 1:
                return False
            add(connection, [task], now)
            return True

        return self.db.write(work)
