"""Queues, cooldowns and periodic tasks in PostgreSQL: what holds tasks back and what brings them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from outlast.ports.rows import Cooldown, NewTask, QueueRow
from outlast.stores.cooled import LATE
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.enqueueing import add
from outlast.stores.postgres.times import in_utc

__all__ = ["PostgresCooldowns", "PostgresPeriodic", "PostgresQueues"]


class PostgresQueues:
    """The duty `Queues`."""

    db: Database

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

    db: Database

    def cool(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone from now on; tell how many capped answers came in a row."""
        values = {"resource": resource, "seconds": float(seconds), "reason": reason, "capped": int(capped)}
        times: int = self.db.fetch("start_cooldown", values)[0][0]
        while self.db.change("defer_cooling_tasks") > 0:
            pass
        return times

    def probe(self, resource: str, hold: float) -> bool:
        """Ask to be the one who tries a resource after the end of a capped cooldown."""
        return bool(self.db.fetch("start_probe", {"resource": resource, "hold": float(hold)})[0][0])

    def warm(self, resource: str) -> None:
        """End a cooldown by hand."""
        self.db.change("end_cooldown", {"resource": resource, "late": LATE})
        self.db.fetch("notify")

    def cooldowns(self) -> list[Cooldown]:
        """Return those that run."""
        return [Cooldown._make(in_utc(row)) for row in self.db.fetch("cooldowns")]


class PostgresPeriodic:
    """The duty `Periodic`."""

    db: Database

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
            add(connection, self.db.sql, [task])
        return True
