"""Read models in PostgreSQL: the pulse, failure groups, and lists of tasks and dead letters.

Statements with optional filters use ``prepare=False``: a plan for other filters would be slow.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

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
from outlast.stores.counters import MAX_CHANGES, event_totals, format_cursor, parse_cursor, parse_pulse
from outlast.stores.postgres.connection import PostgresDatabase, Rows, in_utc
from outlast.stores.postgres.tasks import read_attempt

T = TypeVar("T")
_INDEXED = ("ids", "fingerprint", "task_type", "category")
"""Filters of dead letters that have an index, the most selective first."""


def by_filter(filters: DeadLetterFilter) -> str:
    """Return the suffix of the statement that uses the most selective index for a filter."""
    return next((f"_by_{name}" for name in _INDEXED if getattr(filters, name) is not None), "")


def filter_values(filters: DeadLetterFilter) -> dict[str, Any]:
    """Return the parameters of the statements for a filter."""
    return search_values(filters._asdict()) | {"ids": None if filters.ids is None else list(filters.ids)}


def scan_bounds(limit: int, look: int) -> dict[str, int]:
    """Return the bounds of a scan: one match more than a page has, plus two rows that it returns in any case."""
    return {"look": look, "rows": limit + 3}


def read_page(
    rows: Rows, limit: int, look: int, cursor_of: Callable[[Sequence[Any]], str], read: Callable[[Sequence[Any]], T]
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


class PostgresLists:
    """Implements the lists of `Reads`, newest first, with a bounded number of scanned rows."""

    db: PostgresDatabase

    def dead_letter_lines(self, filters: DeadLetterFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[DeadLetterLine]:
        """Return a page of dead letters."""
        limit = _DEFAULT_LIMIT if filters.limit is None else filters.limit
        values = filter_values(filters) | {"before": _before_id(filters.before)}
        if has_nul(values):
            return Page([], None, 0)
        name = f"list_dead_letters{by_filter(filters)}"
        rows = self.db.fetch(name, values | scan_bounds(limit, look), prepare=False)
        return read_page(rows, limit, look, _id_text, _read_dead_letter_line)

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return the number of dead letters by task and category, according to the counters."""
        return {
            (task_type, category): count for task_type, category, count in self.db.fetch("count_dead_letters_by_type")
        }

    def task_lines(self, filters: TaskFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[TaskLine]:
        """Return a page of tasks."""
        values = filters._asdict() | {
            "status": None if filters.status is None else str(filters.status),
            "before": _before_id(filters.before),
        }
        if has_nul(values):
            return Page([], None, 0)
        values |= scan_bounds(filters.limit, look)
        if filters.status in _LIVE_STATEMENTS:
            rows = self.db.fetch(_LIVE_STATEMENTS[filters.status], values, prepare=False)
            if rows[0][0] <= look:
                return _sorted_page(rows, filters.limit)
        name = "list_failed_tasks" if filters.status is Status.FAILED else "list_tasks"
        return read_page(self.db.fetch(name, values, prepare=False), filters.limit, look, _id_text, _read_task_line)


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


def _read_dead_letter_line(row: Sequence[Any]) -> DeadLetterLine:
    line = DeadLetterLine._make(in_utc(row))
    return line._replace(reason=Reason(line.reason))


def _read_task_line(row: Sequence[Any]) -> TaskLine:
    line = TaskLine._make(in_utc(row))
    return line._replace(status=Status(line.status))


_MAX_COUNT = 2**63 - 1
_MAX_TIME_US = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


class PostgresReads:
    """Implements `Reads`, except the lists of tasks and dead letters."""

    db: PostgresDatabase

    def pulse(self, *, window: float = 3600.0, step: float = 60.0) -> Pulse:
        """Return everything that changes from moment to moment."""
        values = {"window": float(window), "step": float(step), "most": MOST_COUNTED, "changes": MAX_CHANGES}
        return parse_pulse(self.db.fetch("status_snapshot", values | {"silent": SILENT_AFTER})[0][0])

    def event_totals(self) -> dict[str, int]:
        """Return the all-time total of each event."""
        return event_totals((event, count) for event, count in self.db.fetch("event_totals"))

    def failures(self, filters: FailureFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[FailureGroup]:
        """Return a page of failure groups."""
        name, value = "list_failure_groups_by_last_seen", _MAX_TIME_US
        if filters.largest:
            name, value = "list_failure_groups_by_size", _MAX_COUNT
        elif filters.category is not None:
            name = "list_failure_groups_by_category"
        elif filters.task_type is not None:
            name = "list_failure_groups_by_task_type"
        after, fingerprint = parse_cursor(filters.after) or (value, "")
        values = search_values(filters._asdict()) | {"value": max(min(after, value), 0), "fingerprint": fingerprint}
        if has_nul(values):
            return Page([], None, 0)
        rows = self.db.fetch(name, values | scan_bounds(filters.limit, look), prepare=False)
        by = 1 if filters.largest else 0  # rows start with the time of the last failure and the number of failures
        return read_page(
            rows, filters.limit, look, lambda row: format_cursor(row[by], row[2]), lambda row: read_group(row[2:])
        )

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return a failure group, or None."""
        rows = self.db.fetch("failure_group", {"fingerprint": fingerprint})
        return read_group(rows[0]) if rows else None

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of these groups failed, by time step."""
        flow: dict[str, list[FlowPoint]] = {each: [] for each in fingerprints}
        values = {"fingerprints": list(flow), "window": float(window), "step": float(step)}
        for fingerprint, at, event, category, count in self.db.fetch("failure_flow", values):
            flow[fingerprint].append(FlowPoint(at.astimezone(UTC), FlowEvent(event), category, count))
        return flow

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group."""
        rows = self.db.fetch("failure_samples", {"fingerprint": fingerprint, "limit": limit})
        return [read_attempt(row) for row in rows]

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource."""
        count: int = self.db.fetch("count_waiting_for_resource", {"resource": resource, "most": MOST_COUNTED})[0][0]
        return count


def read_group(row: Sequence[Any]) -> FailureGroup:
    """Return a failure group from its row."""
    return FailureGroup._make(in_utc(row))
