"""Read models in SQLite: the pulse, failure groups, and lists of tasks and dead letters."""

from collections.abc import Iterator
from sqlite3 import Connection
from typing import Any, NamedTuple

from outlast.ports.read_rows import MAX_ROWS_SCANNED, DeadLetterLine, FailureFilter, FailureGroup, Page, TaskLine
from outlast.ports.rows import DeadLetterFilter, Status, TaskFilter
from outlast.stores.counters import format_cursor, parse_cursor, take_matching
from outlast.stores.filters import by_filter, group_matches
from outlast.stores.shared_methods import R, SharedReads
from outlast.stores.sqlite.connection import SQL, SqliteDatabase, bind, execute, now_ms, read_row, to_datetime

MAX_ID = 1 << 62
"""Larger than every id."""


class DeadLetterScan(NamedTuple):
    """A statement that returns ids of dead letters, each with whether it matches a filter."""

    sql: str
    values: dict[str, Any]

    def rows(self, connection: Connection) -> Iterator[tuple[int, bool]]:
        """Yield the ids; the reader decides when to stop."""
        for number, matches in connection.execute(*self):
            yield number, bool(matches)


def scan_dead_letters(connection: Connection, filters: DeadLetterFilter, *, after: int | None = None) -> DeadLetterScan:
    """Return the scan for a filter.

    Args:
        connection: Needed to find the id range of the filter's times.
        filters: What to look for. Its limit is ignored.
        after: Scan from the oldest to the newest, after this id; None scans from the newest to the oldest.
    """
    name = "newest_matching" if after is None else "next_matching"
    return DeadLetterScan(SQL[f"{name}{by_filter(filters)}"], walk_values(connection, filters, after))


def walk_values(connection: Connection, filters: DeadLetterFilter, after: int | None = None) -> dict[str, Any]:
    """Return the parameters of the statements for a filter, including its id range."""
    values = bind(filters._asdict())
    least, most = 0, MAX_ID
    if filters.since is not None or filters.until is not None:
        first, last = execute(connection, "dead_letter_id_range", values).fetchone()
        least = MAX_ID if first is None and filters.since is not None else first or 0
        most = (last or 0) + 1 if filters.until is not None else most
    values["before"] = min(MAX_ID if filters.before is None else filters.before, most)
    values["least"] = max(least, 0 if after is None else after + 1)
    return values


_DEFAULT_LIMIT = 50
_LIVE_STATEMENTS = {Status.QUEUED: "queued_ids", Status.RUNNING: "running_ids", Status.PARKED: "parked_ids"}
_CURSOR_START = (MAX_ID, "")  # before the first row of every order


class SqliteReads(SharedReads):
    """Implements `Reads`, except the counters. Lists are newest first, with a bounded number of scanned rows."""

    db: SqliteDatabase

    def dead_letter_lines(self, filters: DeadLetterFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[DeadLetterLine]:
        """Return a page of dead letters."""
        limit = _DEFAULT_LIMIT if filters.limit is None else filters.limit

        def work(connection: Connection) -> Page[DeadLetterLine]:
            scan = scan_dead_letters(connection, filters).rows(connection)
            return _read_page(connection, DeadLetterLine, "list_dead_letters_by_id", take_matching(scan, limit, look))

        return self.db.read(work)

    def task_lines(self, filters: TaskFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[TaskLine]:
        """Return a page of tasks."""

        def work(connection: Connection) -> Page[TaskLine]:
            scan = _scan_tasks(connection, filters, look)
            return _read_page(connection, TaskLine, "list_tasks_by_id", take_matching(scan, filters.limit, look))

        return self.db.read(work)

    def failures(self, filters: FailureFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[FailureGroup]:
        """Return a page of failure groups."""
        of = next((f"of_{name}_" for name in ("category", "task_type") if getattr(filters, name) is not None), "")
        name = f"list_failure_groups_{of}by_{'size' if filters.largest else 'last_seen'}"
        value, fingerprint = parse_cursor(filters.after) or _CURSOR_START
        values = filters._asdict() | {"value": value, "fingerprint": fingerprint}
        now = to_datetime(now_ms())

        def work(connection: Connection) -> Page[FailureGroup]:
            rows = ((row[0], read_row(FailureGroup, row[1:])) for row in execute(connection, name, values))
            taken, last, looked = take_matching(
                ((row, group_matches(row[1], filters, now)) for row in rows), filters.limit, look
            )
            more = None if last is None else format_cursor(last[0], last[1].fingerprint)
            return Page([group for _, group in taken], more, looked)

        return self.db.read(work)


def _read_page(
    connection: Connection, row_type: type[R], name: str, taken: tuple[list[int], int | None, int]
) -> Page[R]:
    """Return a page of the rows with the ids that a scan has found."""
    numbers, last, looked = taken
    rows = execute(connection, name, bind({"ids": numbers}))
    return Page([read_row(row_type, row) for row in rows], None if last is None else str(last), looked)


def _scan_tasks(connection: Connection, filters: TaskFilter, look: int) -> Iterator[tuple[int, bool]]:
    values = filters._asdict() | {"before": MAX_ID if filters.before is None else filters.before}
    search = values.pop("search")
    if search is not None:
        found = execute(connection, "search_tasks", values | {"text": search.text})
        return ((number, text is not None and search.is_shown(key, text)) for number, key, text in found)
    if filters.status in _LIVE_STATEMENTS:
        rows = execute(connection, _LIVE_STATEMENTS[filters.status], {"most": look + 1}).fetchall()
        if len(rows) <= look:
            return execute(connection, "scan_tasks_by_id", bind(values | {"ids": [row[0] for row in rows]}))
    name = "scan_failed_tasks" if filters.status is Status.FAILED else "scan_tasks"
    return execute(connection, name, values)
