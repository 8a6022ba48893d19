"""Tasks in PostgreSQL."""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from itertools import repeat
from typing import Any

from outlast.errors import ConfigError
from outlast.ports.rows import (
    Attempt,
    Enqueued,
    NewTask,
    SettleAndClaim,
    SettleAndClaimResult,
    Status,
    Task,
    TaskBatch,
    TaskFilter,
)
from outlast.stores.counters import event_totals, status_counts
from outlast.stores.filters import GROUP_RETENTION
from outlast.stores.postgres.connection import Connection, PostgresDatabase, in_utc
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.notify import NotifyThrottle
from outlast.stores.postgres.settle_and_claim import settle_and_claim

# How tasks get into PostgreSQL: one in one statement, many plain ones by COPY, all others as one JSON text.

_CHUNK = 1000  # rows of a COPY that are written at a time
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def caller_connection(connection: Any) -> Connection:
    """Return a caller's connection, if it is one that this store can use.

    Raises:
        ConfigError: If it is not.
    """
    if not isinstance(connection, psycopg.Connection):
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        message = f"connection is {kind}; this store takes a psycopg.Connection, the one that is not async"
        raise ConfigError(message)
    return connection


def add_tasks(
    connection: Connection, sql: dict[str, bytes], tasks: Sequence[NewTask], *, quiet: bool = False
) -> list[Enqueued]:
    """Add tasks; within the transaction that the connection is in, or else in one of their own.

    A connection that commits by hand is left in its transaction.

    Args:
        connection: Where.
        sql: The statements.
        tasks: What.
        quiet: Whether somebody else notifies the workers of a single plain task.
    """
    if not tasks:
        return []
    # not the connection's own kind of cursor: a caller's may return rows of another shape
    cursor = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
    cursor.format = psycopg.pq.Format.BINARY
    if len(tasks) == 1 and tasks[0].unique_key is None and tasks[0].resource is None:
        each = tasks[0]
        plain = (each.task_type, each.queue, each.priority, each.parameters, each.run_at, each.delay, each.expires)
        statement = sql["add_task_without_notify" if quiet else "add_plain_task"]
        return [Enqueued(cursor.execute(statement, plain, prepare=True).fetchall()[0][0], created=True)]
    with connection.transaction() if connection.autocommit and len(tasks) > 1 else nullcontext():
        samples = [tasks.alike] if isinstance(tasks, TaskBatch) else tasks
        if all(map(_is_plain, samples)) and connection.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF:
            return _copy(cursor, sql, tasks)
        return _add_keyed(cursor, sql, tasks)


def _is_plain(task: NewTask) -> bool:
    """Tell whether a task is due now and has no more than a name and arguments."""
    return task[4:] == (0.0, None, None, None, None)


def _copy(cursor: Any, sql: dict[str, bytes], tasks: Sequence[NewTask]) -> list[Enqueued]:
    numbers = _draw_ids(cursor, sql, len(tasks))
    with cursor.copy(sql["copy_tasks"]) as copy:
        for begin in range(0, len(tasks), _CHUNK):  # the server reads one while we write the next
            copy.write(_copy_lines(numbers[begin : begin + _CHUNK], *_copy_columns(tasks, begin)))
        added = [*map(Enqueued, numbers, repeat(True))]  # noqa: FBT003  # a field of a row; and while the server works
    cursor.execute(sql["finish_copy"], {"count": len(tasks)})
    return added


def _draw_ids(cursor: Any, sql: dict[str, bytes], count: int) -> Sequence[int]:
    """Draw numbers: mostly they follow each other, and then need not be told one by one."""
    first, last = cursor.execute(sql["reserve_id_range"], {"count": count}).fetchall()[0]
    if last - first + 1 == count:
        return range(first, last + 1)
    return [row[0] for row in cursor.execute(sql["reserve_ids"], {"count": count})]


def _copy_columns(tasks: Sequence[NewTask], begin: int) -> tuple[Iterable[str], list[str]]:
    """Return the columns before the arguments, and the arguments, of a part of the tasks."""
    if isinstance(tasks, TaskBatch):
        return repeat(_line_head(tasks.alike)), tasks.texts(begin, begin + _CHUNK)
    part = tasks[begin : begin + _CHUNK]
    return map(_line_head, part), [each.parameters for each in part]


def _line_head(task: NewTask) -> str:
    return f"{_escape(task.task_type)}\t{_escape(task.queue)}\t{task.priority}\tt"


def _copy_lines(numbers: Sequence[int], heads: Iterable[str], texts: list[str]) -> str:
    """Return rows as COPY reads them: columns between tabs, and what might be taken for more is escaped."""
    everything = " ".join(texts)
    if any(sign in everything for sign, _ in _ESCAPES):
        texts = [*map(_escape, texts)]
    return "".join([f"{number}\t{head}\t{text}\n" for number, head, text in zip(numbers, heads, texts, strict=False)])


def _escape(text: str) -> str:
    for plain, escape in _ESCAPES:
        text = text.replace(plain, escape)
    return text


def _add_keyed(cursor: Any, sql: dict[str, bytes], tasks: Sequence[NewTask]) -> list[Enqueued]:
    """Add tasks of any kind.

    A key may be given free between the two looks, when its task ends; then what is left is tried again.
    """
    added: list[Enqueued | None] = [None] * len(tasks)
    left = list(range(len(tasks)))
    while left:
        given = {"tasks": _dumps([tasks[place]._asdict() for place in left])}
        for place, (number, _) in zip(left, cursor.execute(sql["add_tasks"], given).fetchall(), strict=True):
            if number is not None:
                added[place] = Enqueued(number, created=True)
        left = [place for place in left if added[place] is None]
        if left:
            keys = [{"task_type": tasks[place].task_type, "unique_key": tasks[place].unique_key} for place in left]
            taken = cursor.execute(sql["live_by_key"], {"tasks": _dumps(keys)}).fetchall()
            for place, (number,) in zip(left, taken, strict=True):
                if number is not None:
                    added[place] = Enqueued(number, created=False)
            left = [place for place in left if added[place] is None]
    return [each for each in added if each is not None]


_BATCH = 1000


class PostgresTasks:
    """The duty `Tasks`."""

    db: PostgresDatabase
    notify_throttle: NotifyThrottle

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks, in the caller's transaction if a connection is given."""
        if connection is not None:
            return add_tasks(caller_connection(connection), self.db.sql, tasks)
        quiet = len(tasks) == 1 and not self.notify_throttle.may_notify_now()
        with self.db.connection() as own:
            added = add_tasks(own, self.db.sql, tasks, quiet=quiet)
        if quiet:
            self.notify_throttle.notify_later()
        return added

    def settle_and_claim(self, turn_: SettleAndClaim) -> SettleAndClaimResult:
        """Settle, start and claim for a worker."""
        with self.db.connection() as connection:
            turned, cooling = settle_and_claim(connection, self.db.sql, turn_)
        if cooling:
            with suppress(psycopg.OperationalError):  # the turn counts; these are passed over until they are moved
                self.move_cooling()
        return turned

    def move_cooling(self) -> None:
        """Move tasks of cooling resources out of the claims' way."""
        while self.db.change("defer_cooling_tasks") > 0:
            pass

    def reconcile(self, worker_id: str, held: Sequence[int]) -> int:
        """Give back what a worker holds by the books but not in its hands."""
        return self.db.change("reconcile", {"worker_id": worker_id, "held": list(held)})

    def next_due(self, queues: Sequence[str]) -> float | None:
        """Return the seconds until a task can be claimed."""
        due = self._first_due(queues)
        return None if due is None else max(0.0, due)

    def oldest_ready(self, queues: Sequence[str]) -> float | None:
        """Return the seconds for which the oldest ready task waits."""
        due = self._first_due(queues)
        return None if due is None or due > 0 else -due

    def _first_due(self, queues: Sequence[str]) -> float | None:
        due: float | None = self.db.fetch("next_due", {"queues": list(queues)})[0][0]
        return due

    def suspects_due(self, queues: Sequence[str]) -> bool:
        """Tell whether a task waits that was running when a worker died, and a worker may run it alone now."""
        return bool(self.db.fetch("suspects_due", {"queues": list(queues)})[0][0])

    def get(self, task_id: int) -> Task | None:
        """Return a task."""
        rows = self.db.fetch("get_task", {"id": task_id})
        return _read_task(rows[0]) if rows else None

    def find(self, filters: TaskFilter) -> list[Task]:
        """Return tasks, newest first."""
        values = filters._asdict() | {"status": None if filters.status is None else str(filters.status)}
        return [_read_task(row) for row in self.db.fetch("find_tasks", values, prepare=False)]

    def attempts(self, task_id: int) -> list[Attempt]:
        """Return the failed attempts of a task."""
        return [read_attempt(row) for row in self.db.fetch("attempts", {"id": task_id})]

    def result(self, task_id: int) -> str | None:
        """Return a result that was kept."""
        rows = self.db.fetch("result", {"id": task_id})
        return str(rows[0][0]) if rows else None

    def cancel(self, task_ids: Sequence[int]) -> list[int]:
        """Cancel tasks that wait or are parked."""
        return [row[0] for row in self.db.fetch("cancel", {"ids": list(task_ids)})]

    def run_now(self, task_ids: Sequence[int]) -> list[int]:
        """Make waiting tasks due now."""
        hurried = [row[0] for row in self.db.fetch("run_now", {"ids": list(task_ids)})]
        self.db.fetch("notify")
        return hurried

    def unpark(self, task_types: Sequence[str]) -> int:
        """Queue parked tasks of these names."""
        count = self._repeat("unpark", {"task_types": list(task_types), "batch": _BATCH})
        if count:
            self.db.fetch("notify")
        return count

    def counts(self) -> dict[str, int]:
        """Return how many tasks there are of each status, by the books."""
        found: dict[str, int] = dict(map(tuple, self.db.fetch("counts")))
        running, parked = found.pop("running"), found.pop("parked")
        return status_counts(event_totals(found.items()), running, parked)

    def prune(self, *, done_before: float) -> int:
        """Delete old successes and expired results, and forget old groups of failures."""
        pruned, after = 0, 0
        while True:
            values = {"seconds": float(done_before), "after": after, "batch": _BATCH}
            count: int
            count, last = self.db.fetch("prune_tasks", values, prepare=False)[0]
            pruned += count
            if count < _BATCH:
                break
            after = last
        self._repeat("prune_groups", {"seconds": GROUP_RETENTION, "batch": _BATCH})
        return pruned + self._repeat("prune_results", {"batch": _BATCH})

    def _repeat(self, query: str, values: dict[str, Any]) -> int:
        """Run a statement that changes at most a batch, until there is nothing left for it."""
        changed = 0
        while True:
            count = self.db.change(query, values)
            changed += count
            if count < _BATCH:
                return changed


def read_attempt(row: Sequence[Any]) -> Attempt:
    """Return a line of a task's history from its row."""
    attempt = Attempt._make(in_utc(row))
    return attempt._replace(failure=json.loads(row[-1]))


def _read_task(row: Sequence[Any]) -> Task:
    task = Task._make(in_utc(row))
    return task._replace(status=Status(task.status))
