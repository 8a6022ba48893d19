"""Sources and their cycles in PostgreSQL."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

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
    Transition,
)
from outlast.stores.postgres.alerts import raise_alerts_in
from outlast.stores.postgres.connection import PostgresCursor, PostgresDatabase, dumps, in_utc, read_row
from outlast.stores.postgres.driver import psycopg
from outlast.stores.rules import CYCLES_KEPT, POLLS_KEPT
from outlast.stores.shared_methods import SharedSources, source_columns


class PostgresSources(SharedSources):
    """Implements `Sources`. A source, its history and its alerts are written in one transaction.

    All transactions lock in one order: the cycle, its sources by id, the keys of alerts.
    """

    db: PostgresDatabase

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now; known ones do not change."""
        values = {"sources": dumps([each._asdict() for each in sources])}
        while True:
            with self.db.transaction() as cursor:
                new = {row[0] for row in cursor.fetch("add_sources", values)}
                ids = cursor.column("source_ids", values)
                if None not in ids:
                    return [SourceAdded(number, _remove_if_present(new, number)) for number in ids]
                raise psycopg.Rollback  # a known one was removed meanwhile: try again

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Delete sources with their history, after writes that are in progress, and raise the alerts about it."""
        values, alert_by_id = {"ids": list(source_ids)}, alerts or {}
        with self.db.transaction() as cursor:
            cursor.fetch("lock_sources", values)
            cursor.change("delete_polls", values)
            deleted = sorted(row[0] for row in cursor.fetch("delete_sources", values))
            raise_alerts_in(cursor, [alert_by_id[each] for each in deleted if each in alert_by_id])
        return len(deleted)

    def change_sources(self, changes: Mapping[int, tuple[int | None, ChangeSource]]) -> list[Transition]:
        """Change sources, each locked first."""
        with self.db.transaction() as cursor:
            decided: list[SourceChange] = []
            for now, *row in cursor.fetch("lock_sources", {"ids": list(changes)}):
                source = read_row(Source, row)
                epoch, change = changes[source.id]
                if epoch is None or (epoch == source.epoch and source.outcome is None):
                    wanted = change(source, in_utc(now))
                    if wanted is not None:
                        decided.append(wanted)
            transitions = write_changes(cursor, decided)
            raise_alerts_in(cursor, [alert for each in decided for alert in each.alerts])
        return transitions

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the running cycle of the profile, or start one if a source is due."""
        values = {"profile": profile, "everything": everything}
        while True:
            running = self.db.find(Cycle, "running_cycle", values)
            if running is not None:
                return running
            if not self.db.value("any_source_due", values):
                return None
            cycle = self._start_cycle(values)
            if cycle is not None:
                return cycle

    def _start_cycle(self, values: dict[str, Any]) -> Cycle | None:
        """Start a cycle; return None if another monitor has started one, or has polled the due sources."""
        with self.db.transaction() as cursor:
            for (number,) in cursor.fetch("start_cycle", values):
                size = cursor.change("add_due_sources", values | {"cycle": number})
                if not size:
                    raise psycopg.Rollback
                return cursor.find(Cycle, "set_cycle_size", {"cycle": number, "sources": size})
        return None

    def close_cycle(self, cycle_id: int, close: CloseCycle) -> Closed | None:
        """End a cycle; return None while a source of it has no outcome, or if it has already ended."""
        values = {"cycle": cycle_id}
        with self.db.transaction() as cursor:
            rows = cursor.fetch("lock_cycle", values)
            if not rows:
                return None
            now, cycle = in_utc(rows[0][0]), read_row(Cycle, rows[0][1:])
            sources = cursor.select(Source, "lock_cycle_sources", values)
            if any(each.outcome is None for each in sources):
                return None
            last = cursor.find(Cycle, "last_cycle", {"profile": cycle.profile})
            closing = close(cycle, last, sources, now)
            cursor.change("end_cycle", closing.cycle._asdict() | {"id": cycle_id})
            cursor.change("prune_cycles", {"profile": cycle.profile, "kept": CYCLES_KEPT})
            if closing.withdraw:
                _withdraw_pending(cursor, cycle, sources, now)
            transitions = write_changes(cursor, closing.changes, "update_sources_at_cycle_end")
            alerts = [alert for each in closing.changes for alert in each.alerts]
            raise_alerts_in(cursor, [*alerts, *closing.alerts])
        return Closed(closing.cycle, transitions)

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first."""
        return self.db.select(Cycle, "list_cycles", {"profile": profile, "limit": limit})


def write_changes(
    cursor: PostgresCursor, changes: Sequence[SourceChange], query: str = "update_sources"
) -> list[Transition]:
    """Write changes of sources that the caller has locked; return the transitions. The caller raises the alerts.

    Args:
        cursor: Of the caller's transaction.
        changes: The changes.
        query: Name of the statement that updates the columns.
    """
    if changes:
        cursor.change(query, {"sources": dumps([_source_record(each.source) for each in changes])})
        add_polls(cursor, [each.poll for each in changes if each.poll is not None])
    return [each.transition for each in changes if each.transition is not None]


def add_polls(cursor: PostgresCursor, polls: Iterable[Poll]) -> None:
    """Add history entries of sources that the caller has locked."""
    records = [each._asdict() for each in polls]
    if records:
        cursor.change("add_polls", {"polls": dumps(records), "kept": POLLS_KEPT})


def _source_record(source: Source) -> dict[str, Any]:
    """Return the columns of a source that can change."""
    record = source_columns(source)
    del record["url"], record["profile"], record["created_at"]
    return record | {"last_failure": _dump_json(source.last_failure), "pending": _dump_json(source.pending)}


def _dump_json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)


def _remove_if_present(numbers: set[int], number: int) -> bool:
    """Remove a number from a set; return whether it was there."""
    found = number in numbers
    numbers.discard(number)
    return found


def _withdraw_pending(cursor: PostgresCursor, cycle: Cycle, sources: Sequence[Source], now: datetime) -> None:
    """Drop the pending failures of a cycle; the history keeps them."""
    cursor.change("withdraw_failures", {"cycle": cycle.id})
    failed = [(each.id, each.pending) for each in sources if each.pending is not None]
    add_polls(cursor, [_withdrawn_poll(number, failure, cycle, now) for number, failure in failed])


def _withdrawn_poll(source_id: int, failure: dict[str, Any], cycle: Cycle, now: datetime) -> Poll:
    status, category, error = (failure.get(name) for name in ("http_status", "category", "message"))
    return Poll(source_id, cycle.id, now, "withdrawn", http_status=status, category=category, error=error)
