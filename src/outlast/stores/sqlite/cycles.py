"""The cycles in which sources are polled, in SQLite."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from outlast.ports.source_rows import Closed, Cycle, Source
from outlast.ports.sources import Close
from outlast.sql_files import load_statements
from outlast.stores.kept import CYCLES
from outlast.stores.sqlite.alerts import raise_alerts
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.source_columns import source_of, stored
from outlast.stores.sqlite.sources import write_changes
from outlast.stores.sqlite.times import milliseconds, moment, now_ms

__all__ = ["SqliteCycles"]

SQL = load_statements(__package__)


class SqliteCycles:
    """The duty `Sources`, as far as it is about cycles."""

    db: Database

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the profile's cycle that runs, else begin one; where nothing is due, nobody waits for the file."""
        values, due = {"profile": profile}, "pollable" if everything else "due"

        def look(connection: sqlite3.Connection) -> tuple[Cycle | None, bool]:
            running = _cycle(connection, "running_cycle", values)
            if running is not None:
                return running, False
            return None, _is_any(connection, SQL[f"has_{due}_source"], values)

        def work(connection: sqlite3.Connection) -> Cycle | None:
            running = _cycle(connection, "running_cycle", values)
            if running is not None:
                return running
            now = now_ms()
            ids = [row[0] for row in connection.execute(SQL[f"{due}_sources"], {**values, "now": now})]
            if not ids:
                return None
            number = connection.execute(SQL["start_cycle"], (profile, now, len(ids))).lastrowid or 0
            connection.execute(SQL["add_due_sources"], {"cycle": number, "ids": json.dumps(ids)})
            return Cycle(number, profile, cast(datetime, moment(now)), None, len(ids))

        running, is_due = self.db.read(look)
        return self.db.write(work) if is_due else running

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Take sources of a cycle that have no outcome."""

        def work(connection: sqlite3.Connection) -> list[Source]:
            now = now_ms()
            values = {"cycle": cycle_id, "owner": owner, "limit": limit, "now": now, "until": now + milliseconds(lease)}
            rows = connection.execute(SQL["claim_sources"], values).fetchall()
            return sorted(map(source_of, rows), key=lambda source: source.id)

        return self.db.write(work)

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of what a monitor holds."""

        def work(connection: sqlite3.Connection) -> int:
            values = {"owner": owner, "until": now_ms() + milliseconds(lease)}
            return connection.execute(SQL["renew_source_leases"], values).rowcount

        return self.db.write(work)

    def release_sources(self, owner: str) -> int:
        """Give back what a monitor holds."""
        return self.db.write(
            lambda connection: connection.execute(SQL["release_source_leases"], {"owner": owner}).rowcount
        )

    def close_cycle(self, cycle_id: int, close: Close) -> Closed | None:
        """End a cycle; nobody else writes to the file meanwhile."""
        return self.db.write(lambda connection: _close(connection, cycle_id, close))

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first."""
        sql = SQL["list_cycles" if profile is None else "list_profile_cycles"]
        values = {"profile": profile, "limit": limit}
        return [_made(row) for row in self.db.read(lambda connection: connection.execute(sql, values).fetchall())]


def _close(connection: sqlite3.Connection, cycle_id: int, close: Close) -> Closed | None:
    now, values = now_ms(), {"cycle": cycle_id}
    cycle = _cycle(connection, "cycle_to_end", values)
    if cycle is None:
        return None
    last = _cycle(connection, "last_cycle", {"profile": cycle.profile})
    sources = [source_of(row) for row in connection.execute(SQL["sources_of_cycle"], values)]
    closing = close(cycle, last, sources, cast(datetime, moment(now)))
    if closing.withdraw:
        connection.execute(SQL["record_withdrawn_polls"], {**values, "now": now})
        connection.execute(SQL["withdraw_failures"], values)
    transitions = write_changes(connection, closing.changes, now, "update_source_at_cycle_end")
    raise_alerts(connection, closing.alerts, now)
    ended = closing.cycle._asdict() | {
        name: stored(getattr(closing.cycle, name)) for name in ("ended_at", "outage_since")
    }
    del ended["started_at"]
    connection.execute(SQL["end_cycle"], ended)
    connection.execute(SQL["prune_cycles"], {"profile": cycle.profile, "keep": CYCLES})
    return Closed(closing.cycle, transitions)


def _is_any(connection: sqlite3.Connection, sql: str, values: Mapping[str, Any]) -> bool:
    return connection.execute(sql, {**values, "now": now_ms()}).fetchone() is not None


def _cycle(connection: sqlite3.Connection, name: str, values: Mapping[str, Any]) -> Cycle | None:
    row = connection.execute(SQL[name], values).fetchone()
    return None if row is None else _made(row)


def _made(row: Sequence[Any]) -> Cycle:
    values = dict(zip(Cycle._fields, row, strict=True))
    return Cycle(**values | {name: moment(values[name]) for name in ("started_at", "ended_at", "outage_since")})
