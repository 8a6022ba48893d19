"""Cycles in PostgreSQL: rounds through the sources that are due, shared by all monitors of a profile.

Locks are taken in one order by everybody: the cycle, its sources by number, the matters of alerts.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from outlast.ports.source_rows import Closed, Closing, Cycle, Poll, Source
from outlast.ports.sources import Close
from outlast.stores.kept import CYCLES
from outlast.stores.postgres.alerts import raise_in
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.sources import add_polls, read_source, write_changes
from outlast.stores.postgres.times import in_utc

__all__ = ["PostgresCycles"]


class PostgresCycles:
    """The second half of the duty `Sources`."""

    db: Database

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the profile's cycle that runs, else begin one if a source is due."""
        values = {"profile": profile, "everything": everything}
        while True:
            rows = self.db.fetch("running_cycle", values)
            if rows:
                return _cycle(rows[0])
            if not self.db.fetch("any_source_due", values)[0][0]:
                return None
            cycle = self._begin(values)
            if cycle is not None:
                return cycle

    def _begin(self, values: dict[str, Any]) -> Cycle | None:
        """Begin a cycle; None when somebody else was quicker, or has polled what was due."""
        with self.db.connection() as connection, connection.transaction():
            cursor = connection.cursor(binary=True)
            for (number,) in cursor.execute(self.db.sql["start_cycle"], values).fetchall():
                joined = cursor.execute(self.db.sql["add_due_sources"], values | {"cycle": number}, prepare=False)
                if not joined.rowcount:
                    raise psycopg.Rollback
                size = {"cycle": number, "sources": joined.rowcount}
                return _cycle(cursor.execute(self.db.sql["set_cycle_size"], size).fetchall()[0])
        return None

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Take sources of a cycle that wait, by number."""
        values = {"cycle": cycle_id, "owner": owner, "limit": limit, "lease": float(lease)}
        return [read_source(row) for row in self.db.fetch("claim_sources", values)]

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of what a monitor holds without an outcome."""
        return self.db.change("renew_source_leases", {"owner": owner, "lease": float(lease)})

    def release_sources(self, owner: str) -> int:
        """Give back what a monitor holds without an outcome."""
        return self.db.change("release_source_leases", {"owner": owner})

    def close_cycle(self, cycle_id: int, close: Close) -> Closed | None:
        """End a cycle; None while a source of it has no outcome, or when somebody else has ended it."""
        sql, values = self.db.sql, {"cycle": cycle_id}
        with self.db.connection() as connection, connection.transaction():
            cursor = connection.cursor(binary=True)
            rows = cursor.execute(sql["lock_cycle"], values).fetchall()
            if not rows:
                return None
            now, *row = in_utc(rows[0])
            cycle = Cycle._make(row)
            sources = [read_source(each) for each in cursor.execute(sql["lock_cycle_sources"], values).fetchall()]
            if any(each.outcome is None for each in sources):
                return None
            ended = cursor.execute(sql["last_cycle"], {"profile": cycle.profile}).fetchall()
            closing = close(cycle, _cycle(ended[0]) if ended else None, sources, now)
            cursor.execute(sql["end_cycle"], closing.cycle._asdict() | {"id": cycle_id})
            cursor.execute(sql["prune_cycles"], {"profile": cycle.profile, "kept": CYCLES})
            if closing.withdraw:
                _withdraw(cursor, sql, cycle, sources, now)
            transitions = write_changes(cursor, sql, closing.changes, "update_sources_at_cycle_end")
            raise_in(cursor, sql, _alerts_of(closing))
        return Closed(closing.cycle, transitions)

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first."""
        rows = self.db.fetch("list_cycles", {"profile": profile, "limit": limit}, prepare=False)
        return [_cycle(row) for row in rows]


def _withdraw(cursor: Any, sql: dict[str, bytes], cycle: Cycle, sources: Sequence[Source], now: datetime) -> None:
    """Forget the pending failures of a cycle; the history keeps that there were some."""
    cursor.execute(sql["withdraw_failures"], {"cycle": cycle.id})
    failed = [(each.id, each.pending) for each in sources if each.pending is not None]
    add_polls(cursor, sql, [_withdrawn(number, failure, cycle, now) for number, failure in failed])


def _withdrawn(source_id: int, failure: dict[str, Any], cycle: Cycle, now: datetime) -> Poll:
    status, category, error = (failure.get(name) for name in ("http_status", "category", "message"))
    return Poll(source_id, cycle.id, now, "withdrawn", http_status=status, category=category, error=error)


def _alerts_of(closing: Closing) -> list[Any]:
    return [alert for each in closing.changes for alert in each.alerts] + list(closing.alerts)


def _cycle(row: Sequence[Any]) -> Cycle:
    return Cycle._make(in_utc(row))
