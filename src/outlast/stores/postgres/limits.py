"""Limits of resources in PostgreSQL: a row per resource is the lock, and the server's clock is the one that counts."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from outlast import clock
from outlast.decide.limits import FIRST_MEAN, Candidate, Limit, Standing, reserve, weigh
from outlast.ports.limits import Ask, LimitRow
from outlast.stores.limiting import SHOWN_FOR, busy_beside, limit_row
from outlast.stores.postgres.connection import Database

__all__ = ["PostgresLimits"]

_dumps = json.JSONEncoder(separators=(",", ":")).encode
_WAIT = "2s"  # for rows that another one holds; a worker does nothing else meanwhile
_SILENCE = "10s"  # of who holds them: a process that was stopped, or a machine that is gone
T = TypeVar("T")
Standings = dict[str, Standing]
Slots = dict[str, list[tuple[int, int]]]


class PostgresLimits:
    """The duty `Limits`."""

    db: Database

    def admit(self, asks: Sequence[Ask]) -> dict[int, float]:
        """Let claimed tasks start as far as their resources allow."""
        names = sorted({ask.limit.resource for ask in asks})

        def work(cursor: Any, known: Standings) -> dict[int, float]:
            now, slots = self._live(cursor, names)
            waits, fresh = dict[int, float](), list[dict[str, Any]]()
            for ask in asks:
                name = ask.limit.resource
                taken = slots.setdefault(name, [])
                weighed = weigh(
                    ask.limit,
                    known[name],
                    ask.candidates,
                    busy=busy_beside(ask, taken),
                    mean=ask.mean,
                    now=now,
                    chance=clock.chance,
                )
                known[name] = weighed.standing
                waits |= weighed.waits
                if ask.limit.concurrency is not None:
                    taken += [(each.task_id, each.epoch) for each in weighed.admitted]
                    fresh += [_slot(each, name) for each in weighed.admitted]
            self._keep(cursor, [ask.limit for ask in asks], known, fresh)
            return waits

        return self._under_lock(names, work)

    def reserve_retries(self, limit: Limit, count: int) -> list[float]:
        """Give so many retries a place each."""

        def work(cursor: Any, known: Standings) -> list[float]:
            now, _ = self._live(cursor, [])
            waits, known[limit.resource] = reserve(limit, known[limit.resource], count, now)
            self._keep(cursor, [limit], known, [])
            return waits

        return self._under_lock([limit.resource], work)

    def limits(self) -> list[LimitRow]:
        """Return the limits that were asked for within a day."""
        found = []
        for row in self.db.fetch("limits", {"seconds": SHOWN_FOR}):
            settings, (running, now, *standing) = row[: len(Limit._fields)], row[len(Limit._fields) :]
            found.append(limit_row(Limit(*settings), Standing(*standing), running, now, _moment))
        return found

    def _under_lock(self, names: Sequence[str], work: Callable[[Any, Standings], T]) -> T:
        """Do something in a transaction that holds the rows of some resources.

        Rows that are missing are added in a transaction of their own: to wait for another's insert while rows are
        locked could be for ever.
        """
        values = {"resources": list(names), "wait": _WAIT, "silence": _SILENCE}
        while True:
            with self.db.connection() as connection, connection.transaction():
                cursor = connection.cursor(binary=True)
                rows = cursor.execute(self.db.sql["lock_limits"], values).fetchall()
                if len(rows) == len(names):
                    return work(cursor, {row[0]: Standing._make(row[1:]) for row in rows})
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

    def _keep(self, cursor: Any, limits: Sequence[Limit], known: Standings, slots: Sequence[dict[str, Any]]) -> None:
        rows = [each._asdict() | known[each.resource]._asdict() for each in limits]
        cursor.execute(self.db.sql["save_limits"], {"limits": _dumps(rows), "slots": _dumps(list(slots))})


def _slot(candidate: Candidate, resource: str) -> dict[str, Any]:
    return {"task_id": candidate.task_id, "epoch": candidate.epoch, "resource": resource}


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
