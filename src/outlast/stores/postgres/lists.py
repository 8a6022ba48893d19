"""Lists of tasks and dead letters in PostgreSQL, newest first, which look at no more rows than they are told."""

from collections.abc import Sequence
from typing import Any

from outlast.ports.read_rows import DeadLetterLine, Page, TaskLine
from outlast.ports.reads import MOST_LOOKED_AT
from outlast.ports.rows import DeadLetterFilter, Reason, Status, TaskFilter
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.times import in_utc
from outlast.stores.postgres.walking import bounded, by_filter, has_nul, meant, page_of

__all__ = ["PostgresLists"]

_BEYOND = 2**63 - 1
_LIMIT = 50
_LIVE = {Status.QUEUED: "list_queued_tasks", Status.RUNNING: "list_running_tasks", Status.PARKED: "list_parked_tasks"}


class PostgresLists:
    """The lists of the duty `Reads`; planned each time, for what is not given makes another query of it."""

    db: Database

    def dead_letter_lines(self, which: DeadLetterFilter, *, look: int = MOST_LOOKED_AT) -> Page[DeadLetterLine]:
        """Return dead letters."""
        limit = _LIMIT if which.limit is None else which.limit
        values = meant(which) | {"before": _before(which.before)}
        if has_nul(values):
            return Page([], None, 0)
        name = f"list_dead_letters{by_filter(which)}"
        rows = self.db.fetch(name, values | bounded(limit, look), prepare=False)
        return page_of(rows, limit, look, _number, _letter)

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return how many there are of each task and category, by the books."""
        return {
            (task_type, category): count for task_type, category, count in self.db.fetch("count_dead_letters_by_type")
        }

    def task_lines(self, which: TaskFilter, *, look: int = MOST_LOOKED_AT) -> Page[TaskLine]:
        """Return tasks."""
        values = which._asdict() | {
            "status": None if which.status is None else str(which.status),
            "before": _before(which.before),
        }
        if has_nul(values):
            return Page([], None, 0)
        values |= bounded(which.limit, look)
        if which.status in _LIVE:
            rows = self.db.fetch(_LIVE[which.status], values, prepare=False)
            if rows[0][0] <= look:
                return _few(rows, which.limit)
        name = "list_failed_tasks" if which.status is Status.FAILED else "list_tasks"
        return page_of(self.db.fetch(name, values, prepare=False), which.limit, look, _number, _task)


def _few(rows: Sequence[Sequence[Any]], limit: int) -> Page[TaskLine]:
    """Return a page of tasks that were put in order whole; each row begins with how many there are."""
    found = [row[1:] for row in rows if row[1] is not None]
    more = len(found) > limit > 0
    return Page([_task(row) for row in found[:limit]], _number(found[limit - 1]) if more else None, rows[0][0])


def _before(number: int | None) -> int:
    return _BEYOND if number is None else max(min(number, _BEYOND), 0)


def _number(row: Sequence[Any]) -> str:
    return str(row[0])


def _letter(row: Sequence[Any]) -> DeadLetterLine:
    line = DeadLetterLine._make(in_utc(row))
    return line._replace(reason=Reason(line.reason))


def _task(row: Sequence[Any]) -> TaskLine:
    line = TaskLine._make(in_utc(row))
    return line._replace(status=Status(line.status))
