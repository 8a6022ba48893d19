"""The cycles in which sources are polled, in SQLite."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from outlast.ports.source_rows import Closed, Cycle, Source
from outlast.ports.sources import Close
from outlast.stores.kept import CYCLES
from outlast.stores.queries import queries
from outlast.stores.sqlite.alerts import raise_alerts
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.source_columns import COLUMNS, SOURCES_TO_CLOSE, source_of, stored
from outlast.stores.sqlite.sources import write_changes
from outlast.stores.sqlite.times import milliseconds, moment, now_ms

__all__ = ["SqliteCycles"]

SQL = queries(__package__)
_CYCLE = f"SELECT {', '.join(Cycle._fields)} FROM cycles"  # noqa: S608  # the names of our own fields
_RUNNING = "INDEXED BY cycles_running WHERE profile = :profile AND ended_at IS NULL"


class SqliteCycles:
    """The duty `Sources`, as far as it is about cycles."""

    db: Database

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the profile's cycle that runs, else begin one; where nothing is due, nobody waits for the file."""
        values, due = {"profile": profile}, SQL["all_sources" if everything else "due_sources"]

        def look(connection: sqlite3.Connection) -> tuple[Cycle | None, bool]:
            running = _cycle(connection, _RUNNING, values)
            if running is not None:
                return running, False
            return None, connection.execute(f"{due} LIMIT 1", {**values, "now": now_ms()}).fetchone() is not None

        def work(connection: sqlite3.Connection) -> Cycle | None:
            running = _cycle(connection, _RUNNING, values)
            if running is not None:
                return running
            now = now_ms()
            ids = [row[0] for row in connection.execute(due, {**values, "now": now})]
            if not ids:
                return None
            sql = "INSERT INTO cycles (profile, started_at, sources) VALUES (?, ?, ?)"
            number = connection.execute(sql, (profile, now, len(ids))).lastrowid or 0
            connection.execute(SQL["join_cycle"], {"cycle": number, "ids": json.dumps(ids)})
            return Cycle(number, profile, cast(datetime, moment(now)), None, len(ids))

        running, is_due = self.db.read(look)
        return self.db.write(work) if is_due else running

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Take sources of a cycle that have no outcome."""

        def work(connection: sqlite3.Connection) -> list[Source]:
            now = now_ms()
            values = {"cycle": cycle_id, "owner": owner, "limit": limit, "now": now, "until": now + milliseconds(lease)}
            rows = connection.execute(f"{SQL['claim_sources']} RETURNING {COLUMNS}", values).fetchall()
            return sorted(map(source_of, rows), key=lambda source: source.id)

        return self.db.write(work)

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of what a monitor holds."""

        def work(connection: sqlite3.Connection) -> int:
            values = {"owner": owner, "until": now_ms() + milliseconds(lease)}
            return connection.execute(SQL["renew_sources"], values).rowcount

        return self.db.write(work)

    def release_sources(self, owner: str) -> int:
        """Give back what a monitor holds."""
        return self.db.write(lambda connection: connection.execute(SQL["release_sources"], {"owner": owner}).rowcount)

    def close_cycle(self, cycle_id: int, close: Close) -> Closed | None:
        """End a cycle; nobody else writes to the file meanwhile."""
        return self.db.write(lambda connection: _close(connection, cycle_id, close))

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first."""
        which = "" if profile is None else "INDEXED BY cycles_profile WHERE profile = :profile"
        sql, values = f"{_CYCLE} {which} ORDER BY id DESC LIMIT :limit", {"profile": profile, "limit": limit}
        return [_made(row) for row in self.db.read(lambda connection: connection.execute(sql, values).fetchall())]


def _close(connection: sqlite3.Connection, cycle_id: int, close: Close) -> Closed | None:
    now, values = now_ms(), {"cycle": cycle_id}
    cycle = _cycle(connection, SQL["cycle_to_end"], values)
    if cycle is None:
        return None
    last = _cycle(connection, SQL["last_cycle"], {"profile": cycle.profile})
    sources = [source_of(row) for row in connection.execute(f"{SOURCES_TO_CLOSE} {SQL['sources_of_cycle']}", values)]
    closing = close(cycle, last, sources, cast(datetime, moment(now)))
    if closing.withdraw:
        connection.execute(SQL["note_withdrawn"], {**values, "now": now})
        connection.execute(SQL["withdraw"], values)
    transitions = write_changes(connection, closing.changes, now, "close_source")
    raise_alerts(connection, closing.alerts, now)
    ended = closing.cycle._asdict() | {
        name: stored(getattr(closing.cycle, name)) for name in ("ended_at", "outage_since")
    }
    del ended["started_at"]
    connection.execute(SQL["end_cycle"], ended)
    connection.execute(SQL["prune_cycles"], {"profile": cycle.profile, "keep": CYCLES})
    return Closed(closing.cycle, transitions)


def _cycle(connection: sqlite3.Connection, which: str, values: Mapping[str, Any]) -> Cycle | None:
    row = connection.execute(f"{_CYCLE} {which}", values).fetchone()
    return None if row is None else _made(row)


def _made(row: Sequence[Any]) -> Cycle:
    values = dict(zip(Cycle._fields, row, strict=True))
    return Cycle(**values | {name: moment(values[name]) for name in ("started_at", "ended_at", "outage_since")})
