"""Sources and their cycles in PostgreSQL."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from outlast.decide.source_health import SourceHealth, SourceState
from outlast.ports.source_rows import (
    ChangeSource,
    CloseCycle,
    Closed,
    Closing,
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
from outlast.stores.postgres.alerts import raise_alerts_in
from outlast.stores.postgres.connection import PostgresDatabase, in_utc
from outlast.stores.postgres.driver import psycopg
from outlast.stores.rules import CYCLES_KEPT, POLLS_KEPT

_HEALTH_COLUMNS = slice(5, 5 + len(SourceHealth._fields))
_dumps = json.JSONEncoder(separators=(",", ":"), default=datetime.isoformat).encode


class PostgresSources:
    """Implements `Sources`, except cycles. A source, its history and its alerts are written in one transaction."""

    db: PostgresDatabase

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now; known ones do not change."""
        values = {"sources": _dumps([each._asdict() for each in sources])}
        while True:
            with self.db.connection() as connection, connection.transaction():
                new = {row[0] for row in connection.execute(self.db.sql["add_sources"], values)}
                ids = [row[0] for row in connection.execute(self.db.sql["source_ids"], values)]
                if None not in ids:
                    return [SourceAdded(number, _remove_if_present(new, number)) for number in ids]
                raise psycopg.Rollback  # a known one was removed meanwhile: try again

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Delete sources with their history, after writes that are in progress, and raise the alerts about it."""
        values, alert_by_id = {"ids": list(source_ids)}, alerts or {}
        with self.db.connection() as connection, connection.transaction():
            cursor = connection.cursor(binary=True)
            cursor.execute(self.db.sql["lock_sources"], values)
            cursor.execute(self.db.sql["delete_polls"], values)
            deleted = sorted(row[0] for row in cursor.execute(self.db.sql["delete_sources"], values).fetchall())
            raise_alerts_in(cursor, self.db.sql, [alert_by_id[each] for each in deleted if each in alert_by_id])
        return len(deleted)

    def source(self, source_id: int) -> Source | None:
        """Return a source, or None."""
        rows = self.db.fetch("get_source", {"id": source_id})
        return read_source(rows[0]) if rows else None

    def sources(self, filters: SourceFilter) -> list[Source]:
        """Return matching sources, ordered by id."""
        values = filters._asdict() | {"state": None if filters.state is None else str(filters.state)}
        return [read_source(row) for row in self.db.fetch("list_sources", values, prepare=False)]

    def source_counts(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return the number of sources by state."""
        rows = self.db.fetch("count_sources", {"profile": profile}, prepare=False)
        return dict.fromkeys(SourceState, 0) | {SourceState(state): count for state, count in rows}

    def polls(self, source_id: int, limit: int) -> list[Poll]:
        """Return a source's history, newest first."""
        return [_read_poll(row) for row in self.db.fetch("list_polls", {"id": source_id, "limit": limit})]

    def recent_polls(self, source_ids: Sequence[int], limit: int) -> dict[int, list[Poll]]:
        """Return the last history entries of each of these sources, newest first."""
        found: dict[int, list[Poll]] = {number: [] for number in source_ids}
        for row in self.db.fetch("recent_polls", {"ids": list(found), "limit": limit}):
            found[row[0]].append(_read_poll(row))
        return found

    def waiting_sources(self, limit: int) -> list[tuple[int, str]]:
        """Return sources that are deferred because their host cools down."""
        return [(number, url) for number, url in self.db.fetch("deferred_sources", {"limit": limit})]

    def change_sources(self, changes: Mapping[int, tuple[int | None, ChangeSource]]) -> list[Transition]:
        """Change sources, each locked first."""
        with self.db.connection() as connection, connection.transaction():
            cursor = connection.cursor(binary=True)
            decided: list[SourceChange] = []
            for now, *row in map(
                in_utc, cursor.execute(self.db.sql["lock_sources"], {"ids": list(changes)}).fetchall()
            ):
                source = read_source(row)
                epoch, change = changes[source.id]
                if epoch is None or (epoch == source.epoch and source.outcome is None):
                    wanted = change(source, now)
                    if wanted is not None:
                        decided.append(wanted)
            transitions = write_changes(cursor, self.db.sql, decided)
            raise_alerts_in(cursor, self.db.sql, [alert for each in decided for alert in each.alerts])
        return transitions


def read_source(row: Sequence[Any]) -> Source:
    """Return a source from its row."""
    values = in_utc(row)
    state, *rest = values[_HEALTH_COLUMNS]
    values[_HEALTH_COLUMNS] = [SourceHealth(SourceState(state), *rest)]
    source = Source._make(values)
    return source._replace(last_failure=_load_json(source.last_failure), pending=_load_json(source.pending))


def write_changes(
    cursor: Any, sql: dict[str, bytes], changes: Sequence[SourceChange], query: str = "update_sources"
) -> list[Transition]:
    """Write changes of sources that the caller has locked; return the transitions. The caller raises the alerts.

    Args:
        cursor: Of the caller's transaction.
        sql: The statements by name.
        changes: The changes.
        query: Name of the statement that updates the columns.
    """
    if changes:
        cursor.execute(sql[query], {"sources": _dumps([_source_record(each.source) for each in changes])})
        add_polls(cursor, sql, [each.poll for each in changes if each.poll is not None])
    return [each.transition for each in changes if each.transition is not None]


def add_polls(cursor: Any, sql: dict[str, bytes], polls: Iterable[Poll]) -> None:
    """Add history entries of sources that the caller has locked."""
    records = [each._asdict() for each in polls]
    if records:
        cursor.execute(sql["add_polls"], {"polls": _dumps(records), "kept": POLLS_KEPT})


def _source_record(source: Source) -> dict[str, Any]:
    """Return the columns of a source that can change."""
    record = source._asdict() | source.health._asdict()
    del record["health"], record["url"], record["profile"], record["created_at"]
    return record | {"last_failure": _dump_json(source.last_failure), "pending": _dump_json(source.pending)}


def _read_poll(row: Sequence[Any]) -> Poll:
    poll = Poll._make(in_utc(row))
    return poll._replace(before=_read_state(poll.before), after=_read_state(poll.after))


def _read_state(name: str | None) -> SourceState | None:
    return None if name is None else SourceState(name)


def _dump_json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)


def _load_json(text: Any) -> dict[str, Any] | None:
    loaded: dict[str, Any] | None = None if text is None else json.loads(text)
    return loaded


def _remove_if_present(numbers: set[int], number: int) -> bool:
    """Remove a number from a set; return whether it was there."""
    found = number in numbers
    numbers.discard(number)
    return found


class PostgresCycles:
    """Implements the cycles of `Sources`.

    All transactions lock in one order: the cycle, its sources by id, the keys of alerts.
    """

    db: PostgresDatabase

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the running cycle of the profile, or start one if a source is due."""
        values = {"profile": profile, "everything": everything}
        while True:
            rows = self.db.fetch("running_cycle", values)
            if rows:
                return _read_cycle(rows[0])
            if not self.db.fetch("any_source_due", values)[0][0]:
                return None
            cycle = self._start_cycle(values)
            if cycle is not None:
                return cycle

    def _start_cycle(self, values: dict[str, Any]) -> Cycle | None:
        """Start a cycle; return None if another monitor has started one, or has polled the due sources."""
        with self.db.connection() as connection, connection.transaction():
            cursor = connection.cursor(binary=True)
            for (number,) in cursor.execute(self.db.sql["start_cycle"], values).fetchall():
                joined = cursor.execute(self.db.sql["add_due_sources"], values | {"cycle": number}, prepare=False)
                if not joined.rowcount:
                    raise psycopg.Rollback
                size = {"cycle": number, "sources": joined.rowcount}
                return _read_cycle(cursor.execute(self.db.sql["set_cycle_size"], size).fetchall()[0])
        return None

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Claim sources of a cycle that have no outcome, ordered by id."""
        values = {"cycle": cycle_id, "owner": owner, "limit": limit, "lease": float(lease)}
        return [read_source(row) for row in self.db.fetch("claim_sources", values)]

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of a monitor's sources without an outcome."""
        return self.db.change("renew_source_leases", {"owner": owner, "lease": float(lease)})

    def release_sources(self, owner: str) -> int:
        """Release a monitor's sources without an outcome."""
        return self.db.change("release_source_leases", {"owner": owner})

    def close_cycle(self, cycle_id: int, close: CloseCycle) -> Closed | None:
        """End a cycle; return None while a source of it has no outcome, or if it has already ended."""
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
            closing = close(cycle, _read_cycle(ended[0]) if ended else None, sources, now)
            cursor.execute(sql["end_cycle"], closing.cycle._asdict() | {"id": cycle_id})
            cursor.execute(sql["prune_cycles"], {"profile": cycle.profile, "kept": CYCLES_KEPT})
            if closing.withdraw:
                _withdraw_pending(cursor, sql, cycle, sources, now)
            transitions = write_changes(cursor, sql, closing.changes, "update_sources_at_cycle_end")
            raise_alerts_in(cursor, sql, _closing_alerts(closing))
        return Closed(closing.cycle, transitions)

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first."""
        rows = self.db.fetch("list_cycles", {"profile": profile, "limit": limit}, prepare=False)
        return [_read_cycle(row) for row in rows]


def _withdraw_pending(
    cursor: Any, sql: dict[str, bytes], cycle: Cycle, sources: Sequence[Source], now: datetime
) -> None:
    """Drop the pending failures of a cycle; the history keeps them."""
    cursor.execute(sql["withdraw_failures"], {"cycle": cycle.id})
    failed = [(each.id, each.pending) for each in sources if each.pending is not None]
    add_polls(cursor, sql, [_withdrawn_poll(number, failure, cycle, now) for number, failure in failed])


def _withdrawn_poll(source_id: int, failure: dict[str, Any], cycle: Cycle, now: datetime) -> Poll:
    status, category, error = (failure.get(name) for name in ("http_status", "category", "message"))
    return Poll(source_id, cycle.id, now, "withdrawn", http_status=status, category=category, error=error)


def _closing_alerts(closing: Closing) -> list[Any]:
    return [alert for each in closing.changes for alert in each.alerts] + list(closing.alerts)


def _read_cycle(row: Sequence[Any]) -> Cycle:
    return Cycle._make(in_utc(row))
