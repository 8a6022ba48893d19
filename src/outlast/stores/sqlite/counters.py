"""Counters in SQLite: deltas, their roll-up and their repair."""

import sqlite3
from sqlite3 import Connection

from outlast.ports.read_rows import FlowEvent
from outlast.stores.counters import (
    BREAKER_RETENTION,
    ROLLUPS,
    CounterDelta,
    Rollup,
    count_errors,
    missing_events,
    read_audit,
)
from outlast.stores.sqlite.connection import SQL, SqliteDatabase, execute, now_ms


def write_delta(connection: Connection | sqlite3.Cursor, delta: CounterDelta, now: int) -> None:
    """Write the counter delta of a transaction."""
    for key, count in delta.counts.items():
        execute(connection, "add_delta", (now, key.event.value, *key[1:], count, now))
    for fingerprint, (task_type, note) in delta.groups.items():
        values = (fingerprint, task_type, note.error_type, note.error_category, note.error_message, now, now)
        execute(connection, "add_failure_group", values)


def write_event(connection: Connection | sqlite3.Cursor, event: FlowEvent, count: int, now: int) -> None:
    """Count events that have no other attributes; write nothing for 0."""
    if count:
        execute(connection, "add_delta", (now, event.value, "", "", "", count, now))


def count_new_tasks(connection: Connection, up_to: int) -> None:
    """Count the enqueued tasks that are not counted yet, up to an id."""
    execute(connection, "count_new_tasks", {"up_to": up_to})
    execute(connection, "advance_counted_tasks", (up_to,))


_BATCH = 1000
_TASK_BATCH = 10_000  # tasks that are counted in one transaction
_SECOND = 1000  # milliseconds


class SqliteCounters:
    """Implements `Reads.roll_up` and `Reads.recount`."""

    db: SqliteDatabase

    def roll_up(self) -> int:
        """Roll up finished time steps. If there are none, the file is not locked."""
        now = now_ms()
        while self.db.read(_last_new_task) is not None:
            self.db.write(_count_task_batch)
        moved = sum(self._roll(step, now) for step in ROLLUPS)
        values = {"before": now - BREAKER_RETENTION * _SECOND}
        if self.db.value("has_stale_breakers", values):
            self.db.change("prune_breakers", values)
        return moved

    def _roll(self, step: Rollup, now: int) -> int:
        length, since = step.into * _SECOND, now - step.age * _SECOND
        before = since // length * length if step.span else since + 1
        moved = 0
        while self.db.read(lambda connection: _batch_bound(connection, step, before)) is not None:
            moved += self.db.write(lambda connection: _roll_batch(connection, step, before))
        return moved

    def recount(self) -> dict[str, int]:
        """Repair the counters. All writers wait for it."""
        now = now_ms()
        return self.db.write(lambda connection: _repair(connection, now))


def _last_new_task(connection: Connection) -> int | None:
    last: int | None = execute(connection, "uncounted_tasks", {"batch": _TASK_BATCH}).fetchone()[0]
    return last


def _count_task_batch(connection: Connection) -> None:
    last = _last_new_task(connection)
    if last is not None:
        count_new_tasks(connection, last)


def _batch_bound(connection: Connection, step: Rollup, before: int) -> int | None:
    values = {"span": step.span, "before": before, "batch": _BATCH}
    bound: int | None = execute(connection, f"bound_of_{step.flow}", values).fetchone()[0]
    return bound


def _roll_batch(connection: Connection, step: Rollup, before: int) -> int:
    """Move a batch; return the number of rows. Another process may have moved it already."""
    values = {"span": step.span, "into": step.into, "bound": _batch_bound(connection, step, before)}
    if values["bound"] is None:
        return 0
    if step.span == 0:
        for name in ("rollup_totals", "rollup_groups", "rollup_failures"):
            execute(connection, name, {"bound": values["bound"]})
    if step.keep:
        execute(connection, f"rollup_{step.flow}", values)
    return execute(connection, f"delete_{step.flow}", values).rowcount


def _repair(connection: Connection, now: int) -> dict[str, int]:
    count_new_tasks(connection, execute(connection, "newest_task_id").fetchone()[0])
    rebuilt = execute(connection, "repair_dead_letters", {"now": now}).rowcount
    found = read_audit(execute(connection, "repair_compare"))
    more = missing_events(found)
    rows = [key._asdict() | {"n": count, "now": now} for key, count in more.items()]
    connection.executemany(SQL["repair_totals"], rows)
    execute(connection, "repair_missing_groups")
    execute(connection, "repair_groups")
    return count_errors(found, more, rebuilt)
