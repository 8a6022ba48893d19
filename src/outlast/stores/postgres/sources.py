"""Sources in PostgreSQL, and what is written of them: the row, its history and its alerts, in one transaction."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from outlast.decide.health import Health, SourceState
from outlast.ports.source_rows import (
    NewAlert,
    NewSource,
    Poll,
    Source,
    SourceAdded,
    SourceChange,
    SourceFilter,
    Transition,
)
from outlast.ports.sources import Change
from outlast.stores.kept import POLLS
from outlast.stores.postgres.alerts import raise_in
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.times import in_utc

__all__ = ["PostgresSources", "add_polls", "read_source", "write_changes"]

_HEALTH = slice(5, 5 + len(Health._fields))
_dumps = json.JSONEncoder(separators=(",", ":"), default=datetime.isoformat).encode


class PostgresSources:
    """The first half of the duty `Sources`: what is not about cycles."""

    db: Database

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now; known ones are left as they are."""
        values = {"sources": _dumps([each._asdict() for each in sources])}
        while True:
            with self.db.connection() as connection, connection.transaction():
                new = {row[0] for row in connection.execute(self.db.sql["add_sources"], values)}
                ids = [row[0] for row in connection.execute(self.db.sql["source_ids"], values)]
                if None not in ids:
                    return [SourceAdded(number, _take(new, number)) for number in ids]
                raise psycopg.Rollback  # somebody has removed a known one meanwhile: once more

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Remove sources with their history, and tell of it; what a monitor is writing of them is waited for."""
        values, told = {"ids": list(source_ids)}, alerts or {}
        with self.db.connection() as connection, connection.transaction():
            cursor = connection.cursor(binary=True)
            cursor.execute(self.db.sql["lock_sources"], values)
            cursor.execute(self.db.sql["delete_polls"], values)
            gone = sorted(row[0] for row in cursor.execute(self.db.sql["delete_sources"], values).fetchall())
            raise_in(cursor, self.db.sql, [told[number] for number in gone if number in told])
        return len(gone)

    def source(self, source_id: int) -> Source | None:
        """Return one."""
        rows = self.db.fetch("get_source", {"id": source_id})
        return read_source(rows[0]) if rows else None

    def sources(self, which: SourceFilter) -> list[Source]:
        """Return sources by number; planned each time, for what is not given makes another query of it."""
        values = which._asdict() | {"state": None if which.state is None else str(which.state)}
        return [read_source(row) for row in self.db.fetch("list_sources", values, prepare=False)]

    def source_counts(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return how many there are of each state."""
        rows = self.db.fetch("count_sources", {"profile": profile}, prepare=False)
        return dict.fromkeys(SourceState, 0) | {SourceState(state): count for state, count in rows}

    def polls(self, source_id: int, limit: int) -> list[Poll]:
        """Return a source's history, newest first."""
        return [_poll(row) for row in self.db.fetch("list_polls", {"id": source_id, "limit": limit})]

    def recent_polls(self, source_ids: Sequence[int], limit: int) -> dict[int, list[Poll]]:
        """Return the last lines of the history of some sources, newest first."""
        found: dict[int, list[Poll]] = {number: [] for number in source_ids}
        for row in self.db.fetch("recent_polls", {"ids": list(found), "limit": limit}):
            found[row[0]].append(_poll(row))
        return found

    def waiting_sources(self, limit: int) -> list[tuple[int, str]]:
        """Return sources that were put off."""
        return [(number, url) for number, url in self.db.fetch("deferred_sources", {"limit": limit})]

    def change_sources(self, changes: Mapping[int, tuple[int | None, Change]]) -> list[Transition]:
        """Change sources by number, each locked first."""
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
            raise_in(cursor, self.db.sql, [alert for each in decided for alert in each.alerts])
        return transitions


def read_source(row: Sequence[Any]) -> Source:
    """Return a source from its columns."""
    values = in_utc(row)
    state, *rest = values[_HEALTH]
    values[_HEALTH] = [Health(SourceState(state), *rest)]
    source = Source._make(values)
    return source._replace(last_failure=_loaded(source.last_failure), pending=_loaded(source.pending))


def write_changes(
    cursor: Any, sql: dict[str, bytes], changes: Sequence[SourceChange], query: str = "update_sources"
) -> list[Transition]:
    """Write sources that the caller has locked, with their history, by a statement each; alerts are the caller's.

    Args:
        cursor: Of the caller's transaction.
        sql: The queries by name.
        changes: What is written.
        query: Writes the columns that may change.

    Returns:
        The transitions.
    """
    if changes:
        cursor.execute(sql[query], {"sources": _dumps([_record(each.source) for each in changes])})
        add_polls(cursor, sql, [each.poll for each in changes if each.poll is not None])
    return [each.transition for each in changes if each.transition is not None]


def add_polls(cursor: Any, sql: dict[str, bytes], polls: Iterable[Poll]) -> None:
    """Add lines to the history of sources that the caller has locked."""
    records = [each._asdict() for each in polls]
    if records:
        cursor.execute(sql["add_polls"], {"polls": _dumps(records), "kept": POLLS})


def _record(source: Source) -> dict[str, Any]:
    """Return what of a source can change, as the statement reads it."""
    record = source._asdict() | source.health._asdict()
    del record["health"], record["url"], record["profile"], record["created_at"]
    return record | {"last_failure": _dumped(source.last_failure), "pending": _dumped(source.pending)}


def _poll(row: Sequence[Any]) -> Poll:
    poll = Poll._make(in_utc(row))
    return poll._replace(before=_state(poll.before), after=_state(poll.after))


def _state(name: str | None) -> SourceState | None:
    return None if name is None else SourceState(name)


def _dumped(value: dict[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)


def _loaded(text: Any) -> dict[str, Any] | None:
    loaded: dict[str, Any] | None = None if text is None else json.loads(text)
    return loaded


def _take(numbers: set[int], number: int) -> bool:
    """Tell whether a number is among those, the first time it is asked for."""
    found = number in numbers
    numbers.discard(number)
    return found
