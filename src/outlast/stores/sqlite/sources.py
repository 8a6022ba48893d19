"""Sources in SQLite."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from outlast.decide.health import SourceState
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
from outlast.sql_files import load_statements
from outlast.stores.kept import POLLS
from outlast.stores.sqlite.alerts import raise_alerts
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.source_columns import source_of, stored, values_of
from outlast.stores.sqlite.times import moment, now_ms

__all__ = ["SqliteSources", "write_changes"]

SQL = load_statements(__package__)


class SqliteSources:
    """The duty `Sources`, as far as it is about each of them; `SqliteCycles` has the rest."""

    db: Database

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now."""

        def work(connection: sqlite3.Connection) -> list[SourceAdded]:
            now = now_ms()
            return [_add(connection, each, now) for each in sources]

        return self.db.write(work)

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Remove sources with their history, and tell of it."""
        ids, told = (json.dumps(list(source_ids)),), alerts or {}

        def work(connection: sqlite3.Connection) -> int:
            connection.execute(SQL["delete_polls"], ids)
            gone = sorted(row[0] for row in connection.execute(SQL["delete_sources"], ids))
            raise_alerts(connection, [told[number] for number in gone if number in told], now_ms())
            return len(gone)

        return self.db.write(work)

    def source(self, source_id: int) -> Source | None:
        """Return one."""
        return self.db.read(lambda connection: _read(connection, source_id))

    def sources(self, which: SourceFilter) -> list[Source]:
        """Return sources by number."""
        values = which._asdict()
        rows = self.db.read(lambda connection: connection.execute(SQL["list_sources"], values).fetchall())
        return [source_of(row) for row in rows]

    def source_counts(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return how many there are of each state."""
        values = {"profile": profile}
        rows = self.db.read(lambda connection: connection.execute(SQL["count_sources"], values).fetchall())
        return dict.fromkeys(SourceState, 0) | {SourceState(state): count for state, count in rows}

    def polls(self, source_id: int, limit: int) -> list[Poll]:
        """Return a source's history, newest first."""
        values = {"source_id": source_id, "limit": limit}
        return [_poll(row) for row in self.db.read(lambda own: own.execute(SQL["list_polls"], values).fetchall())]

    def recent_polls(self, source_ids: Sequence[int], limit: int) -> dict[int, list[Poll]]:
        """Return the last lines of the history of some sources, newest first."""
        found: dict[int, list[Poll]] = {number: [] for number in source_ids}
        values = {"source_ids": json.dumps(list(found)), "limit": limit}
        for row in self.db.read(lambda own: own.execute(SQL["recent_polls"], values).fetchall()):
            found[row[0]].append(_poll(row))
        return found

    def waiting_sources(self, limit: int) -> list[tuple[int, str]]:
        """Return sources that were put off."""
        return self.db.read(lambda own: own.execute(SQL["deferred_sources"], (now_ms(), limit)).fetchall())

    def change_sources(self, changes: Mapping[int, tuple[int | None, Change]]) -> list[Transition]:
        """Change sources by number; nobody else writes to the file meanwhile."""

        def work(connection: sqlite3.Connection) -> list[Transition]:
            now, made = now_ms(), []
            for number, (epoch, change) in sorted(changes.items(), key=lambda item: item[0]):
                source = _read(connection, number)
                if source is not None and (epoch is None or (epoch == source.epoch and source.outcome is None)):
                    made.append(change(source, cast(datetime, moment(now))))
            return write_changes(connection, [each for each in made if each is not None], now)

        return self.db.write(work)


def write_changes(
    connection: sqlite3.Connection, changes: Sequence[SourceChange], now: int, query: str = "update_source"
) -> list[Transition]:
    """Write what became of sources, within a transaction, by a query that knows the columns; return the transitions."""
    for change in changes:
        connection.execute(SQL[query], values_of(change.source))
        if change.poll is not None:
            connection.execute(SQL["add_poll"], {**change.poll._asdict(), "at": stored(change.poll.at)})
            connection.execute(SQL["prune_polls"], {"source_id": change.poll.source_id, "keep": POLLS})
        raise_alerts(connection, change.alerts, now)
    return [change.transition for change in changes if change.transition is not None]


def _add(connection: sqlite3.Connection, source: NewSource, now: int) -> SourceAdded:
    values = {**source._asdict(), "now": now}
    row = connection.execute(SQL["add_source"], values).fetchone()
    if row is not None:
        return SourceAdded(row[0], created=True)
    known = connection.execute(SQL["source_id"], values).fetchone()
    return SourceAdded(known[0], created=False)


def _read(connection: sqlite3.Connection, source_id: int) -> Source | None:
    row = connection.execute(SQL["get_source"], (source_id,)).fetchone()
    return None if row is None else source_of(row)


def _poll(row: Sequence[Any]) -> Poll:
    poll = Poll._make(row)
    before, after = (None if state is None else SourceState(state) for state in (poll.before, poll.after))
    return poll._replace(at=cast(datetime, moment(row[2])), before=before, after=after)
