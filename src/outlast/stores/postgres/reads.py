"""Read models in PostgreSQL: the pulse, failure groups, and lists of tasks and dead letters."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from outlast.ports.read_rows import MAX_ROWS_SCANNED, DeadLetterLine, FailureFilter, FailureGroup, Page, TaskLine
from outlast.ports.rows import DeadLetterFilter, Status, TaskFilter
from outlast.stores.counters import format_cursor, parse_cursor
from outlast.stores.filters import by_filter
from outlast.stores.postgres.connection import PostgresDatabase, read_row
from outlast.stores.shared_methods import SharedReads

T = TypeVar("T")


def filter_values(filters: DeadLetterFilter) -> dict[str, Any]:
    """Return the parameters of the statements for a filter."""
    return search_values(filters._asdict()) | {"ids": None if filters.ids is None else list(filters.ids)}


def scan_bounds(limit: int, look: int) -> dict[str, int]:
    """Return the bounds of a scan: one match more than a page has, plus two rows that it returns in any case."""
    return {"look": look, "rows": limit + 3}


def read_page(
    rows: Sequence[Any],
    limit: int,
    look: int,
    cursor_of: Callable[[Sequence[Any]], str],
    read: Callable[[Sequence[Any]], T],
) -> Page[T]:
    """Return a page from the rows of a scan along an index.

    A row starts with its position in the scan, whether it was the last one, and whether it matches. The scan reads one
    row more than allowed, to see whether there is one.

    Args:
        rows: The rows.
        limit: Page size.
        look: Maximum number of scanned rows.
        cursor_of: Returns the cursor of the page after a row.
        read: Returns the page entry of a row.
    """
    found = [row for row in rows if row[2] and row[0] <= look]
    page = [read(row[3:]) for row in found[:limit]]
    if len(found) > limit:
        return Page(page, cursor_of(found[limit - 1][3:]) if limit else None, found[limit][0])
    scanned = min(rows[-1][0], look) if rows else 0
    is_complete = not rows or rows[-1][0] <= look
    cursor = None if is_complete else next(cursor_of(row[3:]) for row in rows if row[0] == look)
    return Page(page, cursor, scanned)


def search_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a filter with its text as ``text`` or as a regular expression ``pattern``.

    Case folding beyond ASCII depends on the database, so a non-ASCII text becomes a pattern with both cases.
    """
    text: str | None = values["text"]
    if text is None or text.isascii():
        return values | {"pattern": None}
    folded = "".join(map(_both_cases, text.casefold()))
    return values | {"text": None, "pattern": folded.replace("ss", "(?:ss|[ßẞ])")}


def _both_cases(sign: str) -> str:
    """Return a pattern for a character in both cases. The search ignores the case of ASCII letters anyway."""
    if sign.isascii():
        return sign if sign.isalnum() else f"\\{sign}"
    return f"[{sign}{sign.upper()}]" if len(sign.upper()) == 1 else sign


def has_nul(values: dict[str, Any]) -> bool:
    """Return whether a value contains NUL, which PostgreSQL cannot store, so that nothing can match."""
    return any(isinstance(value, str) and "\0" in value for value in values.values())


_MAX_ID = 2**63 - 1
_DEFAULT_LIMIT = 50
_LIVE_STATEMENTS = {
    Status.QUEUED: "list_queued_tasks",
    Status.RUNNING: "list_running_tasks",
    Status.PARKED: "list_parked_tasks",
}
_read_task_line = partial(read_row, TaskLine)
_MAX_TIME_US = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


class PostgresReads(SharedReads):
    """Implements `Reads`, except the counters. Lists are newest first, with a bounded number of scanned rows."""

    db: PostgresDatabase

    def dead_letter_lines(self, filters: DeadLetterFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[DeadLetterLine]:
        """Return a page of dead letters."""
        limit = _DEFAULT_LIMIT if filters.limit is None else filters.limit
        values = filter_values(filters) | {"before": _before_id(filters.before)}
        if has_nul(values):
            return Page([], None, 0)
        name = f"list_dead_letters{by_filter(filters)}"
        rows = self.db.fetch(name, values | scan_bounds(limit, look))
        return read_page(rows, limit, look, _id_text, partial(read_row, DeadLetterLine))

    def task_lines(self, filters: TaskFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[TaskLine]:
        """Return a page of tasks."""
        search = filters.search
        values = filters._replace(search=None)._asdict() | {
            "text": search and search.text,
            "status": None if filters.status is None else str(filters.status),
            "before": _before_id(filters.before),
        }
        if has_nul(values):
            return Page([], None, 0)
        values |= scan_bounds(filters.limit, look)
        if search is not None:
            rows = self.db.fetch("search_tasks", search_values(values) | {"exact": search.text})
            shown = [(*row[:2], row[2] and search.is_shown(row[-2], row[-1]), *row[3:-2]) for row in rows]
            return read_page(shown, filters.limit, look, _id_text, _read_task_line)
        if filters.status in _LIVE_STATEMENTS:
            rows = self.db.fetch(_LIVE_STATEMENTS[filters.status], values)
            if rows[0][0] <= look:
                return _sorted_page(rows, filters.limit)
        name = "list_failed_tasks" if filters.status is Status.FAILED else "list_tasks"
        return read_page(self.db.fetch(name, values), filters.limit, look, _id_text, _read_task_line)

    def failures(self, filters: FailureFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[FailureGroup]:
        """Return a page of failure groups."""
        name, value = "list_failure_groups_by_last_seen", _MAX_TIME_US
        if filters.largest:
            name, value = "list_failure_groups_by_size", _MAX_ID
        elif filters.category is not None:
            name = "list_failure_groups_by_category"
        elif filters.task_type is not None:
            name = "list_failure_groups_by_task_type"
        after, fingerprint = parse_cursor(filters.after) or (value, "")
        values = search_values(filters._asdict()) | {"value": max(min(after, value), 0), "fingerprint": fingerprint}
        if has_nul(values):
            return Page([], None, 0)
        rows = self.db.fetch(name, values | scan_bounds(filters.limit, look))
        by = 1 if filters.largest else 0  # rows start with the time of the last failure and the number of failures
        return read_page(
            rows,
            filters.limit,
            look,
            lambda row: format_cursor(row[by], row[2]),
            lambda row: read_row(FailureGroup, row[2:]),
        )


def _sorted_page(rows: Sequence[Sequence[Any]], limit: int) -> Page[TaskLine]:
    """Return a page of tasks that were sorted as a whole. Each row starts with their number."""
    found = [row[1:] for row in rows if row[1] is not None]
    more = len(found) > limit > 0
    return Page(
        [_read_task_line(row) for row in found[:limit]], _id_text(found[limit - 1]) if more else None, rows[0][0]
    )


def _before_id(number: int | None) -> int:
    return _MAX_ID if number is None else max(min(number, _MAX_ID), 0)


def _id_text(row: Sequence[Any]) -> str:
    return str(row[0])
