"""Sources and their cycles in SQLite."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from outlast.decide.source_health import SourceHealth, SourceState
from outlast.ports.source_rows import (
    ChangeSource,
    CloseCycle,
    Closed,
    Cycle,
    NewAlert,
    NewSource,
    Poll,
    Source,
    SourceAdded,
    SourceChange,
    SourceFilter,
    Transition,
)
from outlast.sql_files import load_statements
from outlast.stores.rules import CYCLES_KEPT, POLLS_KEPT
from outlast.stores.sqlite.alerts import raise_alerts
from outlast.stores.sqlite.connection import SqliteDatabase, milliseconds, now_ms, to_datetime

SQL = load_statements(__package__)
_COLUMN_NAMES = tuple(
    name for field in Source._fields for name in (SourceHealth._fields if field == "health" else (field,))
)
"""Columns of a source in the order of the statements: `health` is stored in columns of its own."""
_TIME_COLUMNS = tuple(
    name for name in _COLUMN_NAMES if name.endswith("_at") or name in {"failing_since", "not_before", "leased_until"}
)
_JSON_COLUMNS = ("last_failure", "pending")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def datetime_to_ms(time: datetime | None) -> int | None:
    """Return a time in milliseconds since the Unix epoch, rounded up so that nothing happens early."""
    return None if time is None else -((_EPOCH - time) // _MILLISECOND)


def read_source(row: Sequence[Any]) -> Source:
    """Return a source from its row."""
    values = dict(zip(_COLUMN_NAMES, row, strict=True))
    for name in _TIME_COLUMNS:
        values[name] = to_datetime(values[name])
    for name in _JSON_COLUMNS:
        if values[name] is not None:
            values[name] = json.loads(values[name])
    values["state"] = SourceState(values["state"])
    health = SourceHealth(**{name: values.pop(name) for name in SourceHealth._fields})
    return Source(health=health, **values)


def source_values(source: Source) -> dict[str, Any]:
    """Return the columns of a source by name."""
    values = source._asdict() | source.health._asdict()
    del values["health"]
    for name in _TIME_COLUMNS:
        values[name] = datetime_to_ms(values[name])
    for name in _JSON_COLUMNS:
        if values[name] is not None:
            values[name] = _dumps(values[name])
    return values


class SqliteSources:
    """Implements `Sources`, except cycles."""

    db: SqliteDatabase

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now."""

        def work(connection: sqlite3.Connection) -> list[SourceAdded]:
            now = now_ms()
            return [_add_source(connection, each, now) for each in sources]

        return self.db.write(work)

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Delete sources with their history, and raise the alerts about it."""
        ids, alert_by_id = (json.dumps(list(source_ids)),), alerts or {}

        def work(connection: sqlite3.Connection) -> int:
            connection.execute(SQL["delete_polls"], ids)
            deleted = sorted(row[0] for row in connection.execute(SQL["delete_sources"], ids))
            raise_alerts(connection, [alert_by_id[each] for each in deleted if each in alert_by_id], now_ms())
            return len(deleted)

        return self.db.write(work)

    def source(self, source_id: int) -> Source | None:
        """Return a source, or None."""
        return self.db.read(lambda connection: _fetch_source(connection, source_id))

    def sources(self, filters: SourceFilter) -> list[Source]:
        """Return matching sources, ordered by id."""
        values = filters._asdict()
        rows = self.db.read(lambda connection: connection.execute(SQL["list_sources"], values).fetchall())
        return [read_source(row) for row in rows]

    def source_counts(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return the number of sources by state."""
        values = {"profile": profile}
        rows = self.db.read(lambda connection: connection.execute(SQL["count_sources"], values).fetchall())
        return dict.fromkeys(SourceState, 0) | {SourceState(state): count for state, count in rows}

    def polls(self, source_id: int, limit: int) -> list[Poll]:
        """Return a source's history, newest first."""
        values = {"source_id": source_id, "limit": limit}
        return [_read_poll(row) for row in self.db.read(lambda own: own.execute(SQL["list_polls"], values).fetchall())]

    def recent_polls(self, source_ids: Sequence[int], limit: int) -> dict[int, list[Poll]]:
        """Return the last history entries of each of these sources, newest first."""
        found: dict[int, list[Poll]] = {number: [] for number in source_ids}
        values = {"source_ids": json.dumps(list(found)), "limit": limit}
        for row in self.db.read(lambda own: own.execute(SQL["recent_polls"], values).fetchall()):
            found[row[0]].append(_read_poll(row))
        return found

    def waiting_sources(self, limit: int) -> list[tuple[int, str]]:
        """Return sources that are deferred because their host cools down."""
        return self.db.read(lambda own: own.execute(SQL["deferred_sources"], (now_ms(), limit)).fetchall())

    def change_sources(self, changes: Mapping[int, tuple[int | None, ChangeSource]]) -> list[Transition]:
        """Change sources. The write transaction locks the file."""

        def work(connection: sqlite3.Connection) -> list[Transition]:
            now, decided = now_ms(), []
            for number, (epoch, change) in sorted(changes.items(), key=lambda item: item[0]):
                source = _fetch_source(connection, number)
                if source is not None and (epoch is None or (epoch == source.epoch and source.outcome is None)):
                    decided.append(change(source, cast(datetime, to_datetime(now))))
            return write_changes(connection, [each for each in decided if each is not None], now)

        return self.db.write(work)


def write_changes(
    connection: sqlite3.Connection, changes: Sequence[SourceChange], now: int, query: str = "update_source"
) -> list[Transition]:
    """Write changes of sources within a transaction; return the transitions. `query` updates the columns."""
    for change in changes:
        connection.execute(SQL[query], source_values(change.source))
        if change.poll is not None:
            connection.execute(SQL["add_poll"], {**change.poll._asdict(), "at": datetime_to_ms(change.poll.at)})
            connection.execute(SQL["prune_polls"], {"source_id": change.poll.source_id, "keep": POLLS_KEPT})
        raise_alerts(connection, change.alerts, now)
    return [change.transition for change in changes if change.transition is not None]


def _add_source(connection: sqlite3.Connection, source: NewSource, now: int) -> SourceAdded:
    values = {**source._asdict(), "now": now}
    row = connection.execute(SQL["add_source"], values).fetchone()
    if row is not None:
        return SourceAdded(row[0], created=True)
    known = connection.execute(SQL["source_id"], values).fetchone()
    return SourceAdded(known[0], created=False)


def _fetch_source(connection: sqlite3.Connection, source_id: int) -> Source | None:
    row = connection.execute(SQL["get_source"], (source_id,)).fetchone()
    return None if row is None else read_source(row)


def _read_poll(row: Sequence[Any]) -> Poll:
    poll = Poll._make(row)
    before, after = (None if state is None else SourceState(state) for state in (poll.before, poll.after))
    return poll._replace(at=cast(datetime, to_datetime(row[2])), before=before, after=after)


class SqliteCycles:
    """Implements the cycles of `Sources`."""

    db: SqliteDatabase

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the running cycle of the profile, or start one. If no source is due, the file is not locked."""
        values, due = {"profile": profile}, "pollable" if everything else "due"

        def look(connection: sqlite3.Connection) -> tuple[Cycle | None, bool]:
            running = _fetch_cycle(connection, "running_cycle", values)
            if running is not None:
                return running, False
            return None, _is_any(connection, SQL[f"has_{due}_source"], values)

        def work(connection: sqlite3.Connection) -> Cycle | None:
            running = _fetch_cycle(connection, "running_cycle", values)
            if running is not None:
                return running
            now = now_ms()
            ids = [row[0] for row in connection.execute(SQL[f"{due}_sources"], {**values, "now": now})]
            if not ids:
                return None
            number = connection.execute(SQL["start_cycle"], (profile, now, len(ids))).lastrowid or 0
            connection.execute(SQL["add_due_sources"], {"cycle": number, "ids": json.dumps(ids)})
            return Cycle(number, profile, cast(datetime, to_datetime(now)), None, len(ids))

        running, is_due = self.db.read(look)
        return self.db.write(work) if is_due else running

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Claim sources of a cycle that have no outcome."""

        def work(connection: sqlite3.Connection) -> list[Source]:
            now = now_ms()
            values = {"cycle": cycle_id, "owner": owner, "limit": limit, "now": now, "until": now + milliseconds(lease)}
            rows = connection.execute(SQL["claim_sources"], values).fetchall()
            return sorted(map(read_source, rows), key=lambda source: source.id)

        return self.db.write(work)

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of a monitor's sources."""

        def work(connection: sqlite3.Connection) -> int:
            values = {"owner": owner, "until": now_ms() + milliseconds(lease)}
            return connection.execute(SQL["renew_source_leases"], values).rowcount

        return self.db.write(work)

    def release_sources(self, owner: str) -> int:
        """Release a monitor's sources."""
        return self.db.write(
            lambda connection: connection.execute(SQL["release_source_leases"], {"owner": owner}).rowcount
        )

    def close_cycle(self, cycle_id: int, close: CloseCycle) -> Closed | None:
        """End a cycle. The write transaction locks the file."""
        return self.db.write(lambda connection: _close_cycle(connection, cycle_id, close))

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first."""
        sql = SQL["list_cycles" if profile is None else "list_profile_cycles"]
        values = {"profile": profile, "limit": limit}
        return [_read_cycle(row) for row in self.db.read(lambda connection: connection.execute(sql, values).fetchall())]


def _close_cycle(connection: sqlite3.Connection, cycle_id: int, close: CloseCycle) -> Closed | None:
    now, values = now_ms(), {"cycle": cycle_id}
    cycle = _fetch_cycle(connection, "cycle_to_end", values)
    if cycle is None:
        return None
    last = _fetch_cycle(connection, "last_cycle", {"profile": cycle.profile})
    sources = [read_source(row) for row in connection.execute(SQL["sources_of_cycle"], values)]
    closing = close(cycle, last, sources, cast(datetime, to_datetime(now)))
    if closing.withdraw:
        connection.execute(SQL["record_withdrawn_polls"], {**values, "now": now})
        connection.execute(SQL["withdraw_failures"], values)
    transitions = write_changes(connection, closing.changes, now, "update_source_at_cycle_end")
    raise_alerts(connection, closing.alerts, now)
    ended = closing.cycle._asdict() | {
        name: datetime_to_ms(getattr(closing.cycle, name)) for name in ("ended_at", "outage_since")
    }
    del ended["started_at"]
    connection.execute(SQL["end_cycle"], ended)
    connection.execute(SQL["prune_cycles"], {"profile": cycle.profile, "keep": CYCLES_KEPT})
    return Closed(closing.cycle, transitions)


def _is_any(connection: sqlite3.Connection, sql: str, values: Mapping[str, Any]) -> bool:
    return connection.execute(sql, {**values, "now": now_ms()}).fetchone() is not None


def _fetch_cycle(connection: sqlite3.Connection, name: str, values: Mapping[str, Any]) -> Cycle | None:
    row = connection.execute(SQL[name], values).fetchone()
    return None if row is None else _read_cycle(row)


def _read_cycle(row: Sequence[Any]) -> Cycle:
    values = dict(zip(Cycle._fields, row, strict=True))
    return Cycle(**values | {name: to_datetime(values[name]) for name in ("started_at", "ended_at", "outage_since")})
