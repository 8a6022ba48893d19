"""Limits of resources in SQLite: the write transaction is the lock."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from outlast import clock
from outlast.decide.limits import Limit, Standing, reserve, weigh
from outlast.ports.limits import Ask, LimitRow
from outlast.sql_files import load_statements
from outlast.stores.limiting import SHOWN_FOR, busy_beside, limit_row
from outlast.stores.sqlite.connection import Database

__all__ = ["SqliteLimits"]

SQL = load_statements(__package__)


class SqliteLimits:
    """The duty `Limits`."""

    db: Database

    def admit(self, asks: Sequence[Ask]) -> dict[int, float]:
        """Let claimed tasks start as far as their resources allow."""

        def work(connection: sqlite3.Connection) -> dict[int, float]:
            waits: dict[int, float] = {}
            for ask in asks:
                waits |= _admit(connection, ask)
            return waits

        return self.db.write(work)

    def reserve_retries(self, limit: Limit, count: int) -> list[float]:
        """Give so many retries a place each."""

        def work(connection: sqlite3.Connection) -> list[float]:
            waits, standing = reserve(limit, _known(connection, limit.resource), count, clock.now())
            _keep(connection, limit, standing)
            return waits

        return self.db.write(work)

    def limits(self) -> list[LimitRow]:
        """Return the limits that were asked for within a day."""
        now = clock.now()
        values = {"since": now - SHOWN_FOR}
        rows = self.db.read(lambda connection: connection.execute(SQL["limits"], values).fetchall())
        found = []
        for row in rows:
            settings, (running, *standing) = row[: len(Limit._fields)], row[len(Limit._fields) :]
            found.append(limit_row(Limit(*settings), Standing(*standing), running, now, _moment))
        return found


def _admit(connection: sqlite3.Connection, ask: Ask) -> dict[int, float]:
    limit = ask.limit
    connection.execute(SQL["delete_stale_slots"], {"resource": limit.resource})
    taken = connection.execute(SQL["taken_slots"], (limit.resource,)).fetchall()
    weighed = weigh(
        limit,
        _known(connection, limit.resource),
        ask.candidates,
        busy=busy_beside(ask, taken),
        mean=ask.mean,
        now=clock.now(),
        chance=clock.chance,
    )
    _keep(connection, limit, weighed.standing)
    if limit.concurrency is not None:
        rows = [(each.task_id, each.epoch, limit.resource) for each in weighed.admitted]
        connection.executemany(SQL["save_slot"], rows)
    return weighed.waits


def _known(connection: sqlite3.Connection, resource: str) -> Standing | None:
    row = connection.execute(SQL["get_limit"], (resource,)).fetchone()
    return None if row is None else Standing._make(row)


def _keep(connection: sqlite3.Connection, limit: Limit, standing: Standing) -> None:
    connection.execute(SQL["save_limit"], limit._asdict() | standing._asdict())


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
