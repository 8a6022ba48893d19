"""Read models in SQLite: the pulse, failure groups, and lists of tasks and dead letters."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from outlast.ports.read_rows import (
    MAX_ROWS_SCANNED,
    MOST_COUNTED,
    SILENT_AFTER,
    DeadLetterLine,
    FailureFilter,
    FailureGroup,
    FlowEvent,
    FlowPoint,
    Page,
    Pulse,
    TaskLine,
)
from outlast.ports.rows import Attempt, DeadLetterFilter, Reason, Status, TaskFilter
from outlast.sql_files import load_statements
from outlast.stores.counters import (
    MAX_CHANGES,
    event_totals,
    format_cursor,
    parse_cursor,
    parse_pulse,
    take_matching,
    window_start,
)
from outlast.stores.filters import group_matches
from outlast.stores.sqlite.connection import SqliteDatabase, milliseconds, now_ms, to_datetime
from outlast.stores.sqlite.tasks import read_attempt

SQL = load_statements(__package__)
MAX_ID = 1 << 62
"""Larger than every id."""
_INDEXED = ("ids", "fingerprint", "task_type", "category")
"""Filters of dead letters that have an index, the most selective first."""


class DeadLetterScan(NamedTuple):
    """A statement that returns ids of dead letters, each with whether it matches a filter."""

    sql: str
    values: dict[str, Any]

    def rows(self, connection: sqlite3.Connection) -> Iterator[tuple[int, bool]]:
        """Yield the ids; the reader decides when to stop."""
        for number, matches in connection.execute(*self):
            yield number, bool(matches)


def by_filter(filters: DeadLetterFilter) -> str:
    """Return the suffix of the statement that uses the most selective index for a filter."""
    return next((f"_by_{name}" for name in _INDEXED if getattr(filters, name) is not None), "")


def scan_dead_letters(
    connection: sqlite3.Connection, filters: DeadLetterFilter, *, after: int | None = None
) -> DeadLetterScan:
    """Return the scan for a filter.

    Args:
        connection: Needed to find the id range of the filter's times.
        filters: What to look for. Its limit is ignored.
        after: Scan from the oldest to the newest, after this id; None scans from the newest to the oldest.
    """
    name = "newest_matching" if after is None else "next_matching"
    return DeadLetterScan(SQL[f"{name}{by_filter(filters)}"], walk_values(connection, filters, after))


def walk_values(connection: sqlite3.Connection, filters: DeadLetterFilter, after: int | None = None) -> dict[str, Any]:
    """Return the parameters of the statements for a filter, including its id range."""
    values = filters._asdict()
    for name in ("since", "until"):
        values[name] = None if values[name] is None else milliseconds(values[name].timestamp())
    least, most = 0, MAX_ID
    if filters.since is not None or filters.until is not None:
        first, last = connection.execute(SQL["dead_letter_id_range"], values).fetchone()
        least = MAX_ID if first is None and filters.since is not None else first or 0
        most = (last or 0) + 1 if filters.until is not None else most
    values["before"] = min(MAX_ID if filters.before is None else filters.before, most)
    values["least"] = max(least, 0 if after is None else after + 1)
    values["ids"] = None if filters.ids is None else json.dumps(filters.ids)
    return values


_DEFAULT_LIMIT = 50
_LIVE_STATEMENTS = {Status.QUEUED: "queued_ids", Status.RUNNING: "running_ids", Status.PARKED: "parked_ids"}


class SqliteLists:
    """Implements the lists of `Reads`, newest first, with a bounded number of scanned rows."""

    db: SqliteDatabase

    def dead_letter_lines(self, filters: DeadLetterFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[DeadLetterLine]:
        """Return a page of dead letters."""
        limit = _DEFAULT_LIMIT if filters.limit is None else filters.limit

        def work(connection: sqlite3.Connection) -> Page[DeadLetterLine]:
            numbers, last, looked = take_matching(scan_dead_letters(connection, filters).rows(connection), limit, look)
            rows = connection.execute(SQL["list_dead_letters_by_id"], {"ids": json.dumps(numbers)})
            return Page([_read_dead_letter_line(row) for row in rows], None if last is None else str(last), looked)

        return self.db.read(work)

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return the number of dead letters by task and category."""
        rows = self.db.read(lambda connection: connection.execute(SQL["count_dead_letters_by_type"]).fetchall())
        return {(task_type, category): size for task_type, category, size in rows}

    def task_lines(self, filters: TaskFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[TaskLine]:
        """Return a page of tasks."""

        def work(connection: sqlite3.Connection) -> Page[TaskLine]:
            numbers, last, looked = take_matching(_scan_tasks(connection, filters, look), filters.limit, look)
            rows = connection.execute(SQL["list_tasks_by_id"], {"ids": json.dumps(numbers)})
            return Page([_read_task_line(row) for row in rows], None if last is None else str(last), looked)

        return self.db.read(work)


def _scan_tasks(connection: sqlite3.Connection, filters: TaskFilter, look: int) -> Iterator[tuple[int, bool]]:
    values = filters._asdict()
    values |= {"status": None if filters.status is None else str(filters.status)}
    values |= {"before": MAX_ID if filters.before is None else filters.before}
    if filters.status in _LIVE_STATEMENTS:
        rows = connection.execute(SQL[_LIVE_STATEMENTS[filters.status]], {"most": look + 1}).fetchall()
        if len(rows) <= look:
            ids = json.dumps([row[0] for row in rows])
            return connection.execute(SQL["scan_tasks_by_id"], values | {"ids": ids})
    name = "scan_failed_tasks" if filters.status is Status.FAILED else "scan_tasks"
    return connection.execute(SQL[name], values)


def _read_dead_letter_line(row: Sequence[Any]) -> DeadLetterLine:
    values = dict(zip(DeadLetterLine._fields, row, strict=True))
    return DeadLetterLine(
        **values | {"reason": Reason(values["reason"]), "moved_to_dlq_at": to_datetime(values["moved_to_dlq_at"])}
    )


def _read_task_line(row: Sequence[Any]) -> TaskLine:
    values = dict(zip(TaskLine._fields, row, strict=True))
    values.update({name: to_datetime(values[name]) for name in ("next_run_after", "finished_at", "created_at")})
    return TaskLine(**values | {"status": Status(values["status"])})


_CURSOR_START = (MAX_ID, "")  # before the first row of every order
_GROUP_TIMES = ("first_seen", "last_seen", "acknowledged_at", "snoozed_until")


class SqliteReads:
    """Implements `Reads`, except the lists of tasks and dead letters."""

    db: SqliteDatabase

    def pulse(self, *, window: float = 3600.0, step: float = 60.0) -> Pulse:
        """Return everything that changes from moment to moment."""
        values = {"most": MOST_COUNTED, "changes": MAX_CHANGES, **_window_values(window, step)}
        values["reported_since"] = values["now"] - milliseconds(SILENT_AFTER)
        return parse_pulse(
            self.db.read(lambda connection: connection.execute(SQL["status_snapshot"], values).fetchone()[0])
        )

    def event_totals(self) -> dict[str, int]:
        """Return the all-time total of each event."""
        return event_totals(self.db.read(lambda connection: connection.execute(SQL["event_totals"]).fetchall()))

    def failures(self, filters: FailureFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[FailureGroup]:
        """Return a page of failure groups."""
        of = next((f"of_{name}_" for name in ("category", "task_type") if getattr(filters, name) is not None), "")
        sql = SQL[f"list_failure_groups_{of}by_{'size' if filters.largest else 'last_seen'}"]
        value, fingerprint = parse_cursor(filters.after) or _CURSOR_START
        values = {
            "category": filters.category,
            "task_type": filters.task_type,
            "value": value,
            "fingerprint": fingerprint,
        }
        now = cast(datetime, to_datetime(now_ms()))

        def work(connection: sqlite3.Connection) -> Page[FailureGroup]:
            rows = ((row[0], read_group(row[1:])) for row in connection.execute(sql, values))
            taken, last, looked = take_matching(
                ((row, group_matches(row[1], filters, now)) for row in rows), filters.limit, look
            )
            more = None if last is None else format_cursor(last[0], last[1].fingerprint)
            return Page([group for _, group in taken], more, looked)

        return self.db.read(work)

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return a failure group, or None."""
        values = {"fingerprint": fingerprint}
        row = self.db.read(lambda connection: connection.execute(SQL["failure_group"], values).fetchone())
        return None if row is None else read_group(row)

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of these groups failed, by time step."""
        values = {"fingerprints": json.dumps(list(dict.fromkeys(fingerprints))), **_window_values(window, step)}
        rows = self.db.read(lambda connection: connection.execute(SQL["failure_flow"], values).fetchall())
        flow: dict[str, list[FlowPoint]] = {each: [] for each in fingerprints}
        for fingerprint, at, event, category, count in rows:
            flow[fingerprint].append(FlowPoint(cast(datetime, to_datetime(at)), FlowEvent(event), category, count))
        return flow

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group."""
        values = {"fingerprint": fingerprint, "limit": limit}
        rows = self.db.read(lambda connection: connection.execute(SQL["failure_samples"], values).fetchall())
        return [read_attempt(row) for row in rows]

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource."""
        values = {"resource": resource, "most": MOST_COUNTED}
        count: int = self.db.read(
            lambda connection: connection.execute(SQL["count_waiting_for_resource"], values).fetchone()[0]
        )
        return count


def _window_values(window: float, step: float) -> dict[str, int]:
    now = now_ms()
    return {"now": now, "step": round(step * 1000), "begin": round(window_start(now / 1000, window, step) * 1000)}


def read_group(row: Sequence[Any]) -> FailureGroup:
    """Return a failure group from its row."""
    values = dict(zip(FailureGroup._fields, row, strict=True))
    values.update({name: to_datetime(values[name]) for name in _GROUP_TIMES})
    return FailureGroup(**values)
