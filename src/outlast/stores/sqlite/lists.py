"""Lists of tasks and dead letters in SQLite, newest first, which look at no more rows than they are told."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from outlast.ports.read_rows import DeadLetterLine, Page, TaskLine
from outlast.ports.reads import MOST_LOOKED_AT
from outlast.ports.rows import DeadLetterFilter, Reason, Status, TaskFilter
from outlast.sql_files import load_statements
from outlast.stores.books import take
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.letter_walks import BEYOND, letter_walk
from outlast.stores.sqlite.times import moment

__all__ = ["SqliteLists"]

SQL = load_statements(__package__)
_DEFAULT_LIMIT = 50
_LIVE = {Status.QUEUED: "queued_ids", Status.RUNNING: "running_ids", Status.PARKED: "parked_ids"}


class SqliteLists:
    """The lists of the duty `Reads`."""

    db: Database

    def dead_letter_lines(self, which: DeadLetterFilter, *, look: int = MOST_LOOKED_AT) -> Page[DeadLetterLine]:
        """Return dead letters."""
        limit = _DEFAULT_LIMIT if which.limit is None else which.limit

        def work(connection: sqlite3.Connection) -> Page[DeadLetterLine]:
            numbers, last, looked = take(letter_walk(connection, which).rows(connection), limit, look)
            rows = connection.execute(SQL["list_dead_letters_by_id"], {"ids": json.dumps(numbers)})
            return Page([_letter(row) for row in rows], None if last is None else str(last), looked)

        return self.db.read(work)

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return how many there are of each task and category."""
        rows = self.db.read(lambda connection: connection.execute(SQL["count_dead_letters_by_type"]).fetchall())
        return {(task_type, category): size for task_type, category, size in rows}

    def task_lines(self, which: TaskFilter, *, look: int = MOST_LOOKED_AT) -> Page[TaskLine]:
        """Return tasks."""

        def work(connection: sqlite3.Connection) -> Page[TaskLine]:
            numbers, last, looked = take(_walk_tasks(connection, which, look), which.limit, look)
            rows = connection.execute(SQL["list_tasks_by_id"], {"ids": json.dumps(numbers)})
            return Page([_task(row) for row in rows], None if last is None else str(last), looked)

        return self.db.read(work)


def _walk_tasks(connection: sqlite3.Connection, which: TaskFilter, look: int) -> Iterator[tuple[int, bool]]:
    values = which._asdict()
    values |= {"status": None if which.status is None else str(which.status)}
    values |= {"before": BEYOND if which.before is None else which.before}
    if which.status in _LIVE:
        rows = connection.execute(SQL[_LIVE[which.status]], {"most": look + 1}).fetchall()
        if len(rows) <= look:
            ids = json.dumps([row[0] for row in rows])
            return connection.execute(SQL["scan_tasks_by_id"], values | {"ids": ids})
    name = "scan_failed_tasks" if which.status is Status.FAILED else "scan_tasks"
    return connection.execute(SQL[name], values)


def _letter(row: Sequence[Any]) -> DeadLetterLine:
    values = dict(zip(DeadLetterLine._fields, row, strict=True))
    return DeadLetterLine(
        **values | {"reason": Reason(values["reason"]), "moved_to_dlq_at": moment(values["moved_to_dlq_at"])}
    )


def _task(row: Sequence[Any]) -> TaskLine:
    values = dict(zip(TaskLine._fields, row, strict=True))
    values.update({name: moment(values[name]) for name in ("next_run_after", "finished_at", "created_at")})
    return TaskLine(**values | {"status": Status(values["status"])})
