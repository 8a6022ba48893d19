"""Sources and their cycles in SQLite."""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection

from outlast.ports.source_rows import (
    ChangeSource,
    CloseCycle,
    Closed,
    Cycle,
    NewAlert,
    NewSource,
    Source,
    SourceAdded,
    SourceChange,
    Transition,
)
from outlast.stores.rules import CYCLES_KEPT, POLLS_KEPT
from outlast.stores.shared_methods import SharedSources, source_columns
from outlast.stores.sqlite.alerts import raise_alerts
from outlast.stores.sqlite.connection import SqliteDatabase, bind, execute, find, now_ms, read_row, to_datetime


class SqliteSources(SharedSources):
    """Implements `Sources`."""

    db: SqliteDatabase

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now."""
        return self.db.write(lambda connection: [_add_source(connection, each) for each in sources])

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Delete sources with their history, and raise the alerts about it."""
        values, alert_by_id = bind({"ids": list(source_ids)}), alerts or {}

        def work(connection: Connection) -> int:
            execute(connection, "delete_polls", values)
            deleted = sorted(row[0] for row in execute(connection, "delete_sources", values))
            raise_alerts(connection, [alert_by_id[each] for each in deleted if each in alert_by_id])
            return len(deleted)

        return self.db.write(work)

    def change_sources(self, changes: Mapping[int, tuple[int | None, ChangeSource]]) -> list[Transition]:
        """Change sources. The write transaction locks the file."""

        def work(connection: Connection) -> list[Transition]:
            now, decided = to_datetime(now_ms()), []
            for number, (epoch, change) in sorted(changes.items(), key=lambda item: item[0]):
                for row in execute(connection, "get_source", {"id": number}).fetchall():
                    source = read_row(Source, row)
                    if epoch is None or (epoch == source.epoch and source.outcome is None):
                        decided.append(change(source, now))
            return write_changes(connection, [each for each in decided if each is not None])

        return self.db.write(work)

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the running cycle of the profile, or start one. If no source is due, the file is not locked."""
        values, due = {"profile": profile}, "pollable" if everything else "due"

        def work(connection: Connection) -> Cycle | None:
            running = find(connection, Cycle, "running_cycle", values)
            if running is not None:
                return running
            bound = bind(values)
            ids = [row[0] for row in execute(connection, f"{due}_sources", bound)]
            if not ids:
                return None
            number = execute(connection, "start_cycle", (profile, bound["now"], len(ids))).lastrowid or 0
            execute(connection, "add_due_sources", bind({"cycle": number, "ids": ids}))
            return Cycle(number, profile, to_datetime(bound["now"]), None, len(ids))

        running = self.db.find(Cycle, "running_cycle", values)
        if running is None and self.db.fetch(f"has_{due}_source", values):
            return self.db.write(work)
        return running

    def close_cycle(self, cycle_id: int, close: CloseCycle) -> Closed | None:
        """End a cycle. The write transaction locks the file."""
        return self.db.write(lambda connection: _close_cycle(connection, cycle_id, close))

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first."""
        name = "list_cycles" if profile is None else "list_profile_cycles"
        return self.db.select(Cycle, name, {"profile": profile, "limit": limit})


def write_changes(
    connection: Connection, changes: Sequence[SourceChange], query: str = "update_source"
) -> list[Transition]:
    """Write changes of sources within a transaction; return the transitions. `query` updates the columns."""
    for change in changes:
        execute(connection, query, bind(source_columns(change.source)))
        if change.poll is not None:
            execute(connection, "add_poll", bind(change.poll._asdict()))
            execute(connection, "prune_polls", {"source_id": change.poll.source_id, "keep": POLLS_KEPT})
        raise_alerts(connection, change.alerts)
    return [change.transition for change in changes if change.transition is not None]


def _add_source(connection: Connection, source: NewSource) -> SourceAdded:
    values = bind(source._asdict())
    row = execute(connection, "add_source", values).fetchone()
    if row is not None:
        return SourceAdded(row[0], created=True)
    known = execute(connection, "source_id", values).fetchone()
    return SourceAdded(known[0], created=False)


def _close_cycle(connection: Connection, cycle_id: int, close: CloseCycle) -> Closed | None:
    values = bind({"cycle": cycle_id})
    cycle = find(connection, Cycle, "cycle_to_end", values)
    if cycle is None:
        return None
    last = find(connection, Cycle, "last_cycle", {"profile": cycle.profile})
    sources = [read_row(Source, row) for row in execute(connection, "sources_of_cycle", values)]
    closing = close(cycle, last, sources, to_datetime(values["now"]))
    if closing.withdraw:
        execute(connection, "record_withdrawn_polls", values)
        execute(connection, "withdraw_failures", values)
    transitions = write_changes(connection, closing.changes, "update_source_at_cycle_end")
    raise_alerts(connection, closing.alerts)
    execute(connection, "end_cycle", bind(closing.cycle._asdict()))
    execute(connection, "prune_cycles", {"profile": cycle.profile, "keep": CYCLES_KEPT})
    return Closed(closing.cycle, transitions)
