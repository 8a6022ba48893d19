"""Tasks in SQLite: enqueueing, lookup, cancelling and pruning."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any

from outlast.errors import ConfigError
from outlast.ports.read_rows import FlowEvent
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
from outlast.sql_files import load_statements
from outlast.stores.counters import event_totals, status_counts
from outlast.stores.filters import GROUP_RETENTION
from outlast.stores.sqlite.connection import SqliteDatabase, caller_transaction, milliseconds, now_ms, to_datetime
from outlast.stores.sqlite.counters import count_new_tasks, write_event
from outlast.stores.sqlite.schema import migrate, schema_version
from outlast.stores.sqlite.settle_and_claim import settle_and_claim

SQL = load_statements(__package__)
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_ADD_PLAIN_TASK = SQL["add_plain_task"]
_BATCH = 1000
_TASK_TIMES = ("next_run_after", "expires_at", "started_at", "failed_at", "finished_at", "created_at", "updated_at")
_PRUNED_EVENTS = {
    "DONE": FlowEvent.PRUNED_DONE,
    "CANCELLED": FlowEvent.PRUNED_CANCELLED,
    "DISCARDED": FlowEvent.PRUNED_DISCARDED,
}


class SqliteTasks:
    """Implements `Tasks`."""

    db: SqliteDatabase

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks, in the caller's transaction if a connection is given."""
        now = now_ms()
        if connection is None and len(tasks) == 1:
            (only,) = tasks
            if only.unique_key is None and only.resource is None:
                return [Enqueued(self.db.insert(_ADD_PLAIN_TASK, _plain_row(only, now)), created=True)]
        if connection is not None:
            if not isinstance(connection, sqlite3.Connection):
                message = f"connection is {type(connection).__name__}; it must be a sqlite3.Connection"
                raise ConfigError(message)
            with caller_transaction(connection) as cursor:
                if schema_version(cursor) == 0:  # a new file, which our own connection cannot write now
                    migrate(cursor)
                return add_tasks(cursor, tasks, now)
        return self.db.write(lambda own: add_tasks(own, tasks, now))

    def settle_and_claim(self, request: SettleAndClaim) -> SettleAndClaimResult:
        """Settle, start and claim tasks for a worker."""
        return self.db.write(lambda connection: settle_and_claim(connection, request, now_ms()))

    def reconcile(self, worker_id: str, held: Sequence[int]) -> int:
        """Release tasks that a worker does not hold, although the store assigns them to it."""
        values = {"worker_id": worker_id, "held": _dumps(list(held)), "now": now_ms()}
        return self.db.write(lambda connection: connection.execute(SQL["reconcile"], values).rowcount)

    def next_due(self, queues: Sequence[str]) -> float | None:
        """Return the seconds until a task can be claimed."""
        due = self._first_due(queues)
        return None if due is None else max(0.0, due)

    def oldest_ready(self, queues: Sequence[str]) -> float | None:
        """Return for how many seconds the oldest ready task has waited."""
        due = self._first_due(queues)
        return None if due is None or due > 0 else -due

    def _first_due(self, queues: Sequence[str]) -> float | None:
        values = {"queues": _dumps(list(queues))}
        due = self.db.read(lambda connection: connection.execute(SQL["next_due"], values).fetchone()[0])
        return None if due is None else (due - now_ms()) / 1000

    def suspects_due(self, queues: Sequence[str]) -> bool:
        """Return whether a suspect is due and a worker may run it now."""
        values = {"queues": _dumps(list(queues)), "now": now_ms()}
        return bool(self.db.read(lambda connection: connection.execute(SQL["suspects_due"], values).fetchone()[0]))

    def get(self, task_id: int) -> Task | None:
        """Return a task."""
        row = self.db.read(lambda connection: connection.execute(SQL["get_task"], (task_id,)).fetchone())
        return None if row is None else _read_task(row)

    def find(self, filters: TaskFilter) -> list[Task]:
        """Return matching tasks, newest first."""
        values = filters._asdict() | {"status": None if filters.status is None else str(filters.status)}
        rows = self.db.read(lambda connection: connection.execute(SQL["find_tasks"], values).fetchall())
        return [_read_task(row) for row in rows]

    def attempts(self, task_id: int) -> list[Attempt]:
        """Return the failed attempts of a task."""
        rows = self.db.read(lambda connection: connection.execute(SQL["attempts"], (task_id,)).fetchall())
        return [read_attempt(row) for row in rows]

    def result(self, task_id: int) -> str | None:
        """Return the stored result of a task."""
        values = (task_id, now_ms())
        row = self.db.read(lambda connection: connection.execute(SQL["result"], values).fetchone())
        return None if row is None else str(row[0])

    def cancel(self, task_ids: Sequence[int]) -> list[int]:
        """Cancel queued or parked tasks."""
        now = now_ms()
        values = {"ids": _dumps(list(task_ids)), "now": now}

        def work(connection: sqlite3.Connection) -> list[int]:
            rows = connection.execute(SQL["cancel"], values).fetchall()
            write_event(connection, FlowEvent.CANCELLED, len(rows), now)
            return [row[0] for row in rows]

        return self.db.write(work)

    def run_now(self, task_ids: Sequence[int]) -> list[int]:
        """Make queued tasks due now."""
        values = {"ids": _dumps(list(task_ids)), "now": now_ms()}
        rows = self.db.write(lambda connection: connection.execute(SQL["run_now"], values).fetchall())
        return [row[0] for row in rows]

    def unpark(self, task_types: Sequence[str]) -> int:
        """Queue parked tasks of these task types."""
        values = {"task_types": _dumps(list(task_types)), "now": now_ms(), "batch": _BATCH}
        return self._repeat("unpark", values)

    def counts(self) -> dict[str, int]:
        """Return the number of tasks by status, according to the counters."""
        rows = self.db.read(lambda connection: connection.execute(SQL["counts"]).fetchall())
        (_, running), (_, parked), *totals = rows
        return status_counts(event_totals(totals), running, parked)

    def prune(self, *, done_before: float) -> int:
        """Delete old finished tasks, expired results and old failure groups."""
        now = now_ms()
        values = {"before": now - milliseconds(done_before), "now": now, "batch": _BATCH, "after": 0}
        pruned = 0
        while rows := self.db.read(lambda connection: connection.execute(SQL["expired_tasks"], values).fetchall()):
            ids = _dumps([row[0] for row in rows])
            pruned += self.db.write(lambda connection: _prune_tasks(connection, ids, now))  # noqa: B023  # called now
            values["after"] = rows[-1][0]
        self._prune_old_groups(now - milliseconds(GROUP_RETENTION))
        return pruned + self._repeat("prune_results", values)

    def _prune_old_groups(self, before: int) -> None:
        """Delete failure groups that were last seen before a time and have no dead letters and no note."""
        values = {"before": before, "seen": 0, "after": "", "batch": _BATCH}
        while rows := self.db.read(lambda connection: connection.execute(SQL["expired_groups"], values).fetchall()):
            names = _dumps([row[0] for row in rows])
            self.db.write(lambda connection: _prune_groups(connection, names, before))  # noqa: B023  # called now
            values["after"], values["seen"] = rows[-1]

    def _repeat(self, query: str, values: dict[str, Any]) -> int:
        """Run a statement that changes at most one batch until nothing is left; return the number of changed rows."""
        changed = 0
        while True:
            count = self.db.write(lambda connection: connection.execute(SQL[query], values).rowcount)
            changed += count
            if count < _BATCH:
                return changed


def add_tasks(connection: sqlite3.Connection | sqlite3.Cursor, tasks: Sequence[NewTask], now: int) -> list[Enqueued]:
    """Add tasks within a transaction."""
    if len(tasks) == 1:
        return [_add_one(connection, tasks[0], now)]
    samples = [tasks.alike] if isinstance(tasks, TaskBatch) else tasks
    if any(task.unique_key is not None or task.resource is not None for task in samples):
        return [_add_one(connection, task, now) for task in tasks]
    for begin in range(0, len(tasks), _BATCH):
        if isinstance(tasks, TaskBatch):
            _add_alike(connection, tasks.alike, tasks.texts(begin, begin + _BATCH), now)
        else:
            rows = [_plain_row(each, now) for each in tasks[begin : begin + _BATCH]]
            connection.executemany(SQL["add_plain_task"], rows)
    last = connection.execute("SELECT last_insert_rowid()").fetchone()[0]
    return [Enqueued(number, created=True) for number in range(last - len(tasks) + 1, last + 1)]


def _add_alike(connection: sqlite3.Connection | sqlite3.Cursor, alike: NewTask, texts: list[str], now: int) -> None:
    """Add tasks without key and resource that differ only in their arguments, in one statement."""
    values = alike._asdict() | {"due": _due_ms(alike, now), "expires_at": _expiry_ms(alike, now), "now": now}
    connection.execute(SQL["add_similar_tasks"], values | {"parameters": _dumps(texts)})


def _add_one(connection: sqlite3.Connection | sqlite3.Cursor, task: NewTask, now: int) -> Enqueued:
    if task.unique_key is None and task.resource is None:
        return Enqueued(connection.execute(SQL["add_plain_task"], _plain_row(task, now)).lastrowid or 0, created=True)
    values = task._asdict() | {"due": _due_ms(task, now), "expires_at": _expiry_ms(task, now), "now": now}
    row = connection.execute(SQL["add_task"], values).fetchone()
    if row is not None:
        return Enqueued(row[0], created=True)
    return Enqueued(connection.execute(SQL["live_by_key"], values).fetchone()[0], created=False)


def _prune_tasks(connection: sqlite3.Connection, ids: str, now: int) -> int:
    """Delete a batch of finished tasks with their histories."""
    count_new_tasks(connection, json.loads(ids)[-1])
    for name in ("delete_attempts", "delete_payload_edits"):
        connection.execute(SQL[name], (ids,))
    pruned = Counter(row[0] for row in connection.execute(SQL["delete_tasks"], (ids,)).fetchall())
    for status, count in pruned.items():
        write_event(connection, _PRUNED_EVENTS[status], count, now)
    return pruned.total()


def _prune_groups(connection: sqlite3.Connection, names: str, before: int) -> None:
    rows = connection.execute(SQL["prune_groups"], {"fingerprints": names, "before": before}).fetchall()
    if rows:
        connection.execute(SQL["delete_group_alerts"], {"gone": _dumps([row[0] for row in rows])})


def _plain_row(task: NewTask, now: int) -> tuple[Any, ...]:
    """Return the columns of a task without a unique key and a resource."""
    name, parameters, queue, priority, delay, run_at, _, _, expires = task
    due = now if not delay and run_at is None else _due_ms(task, now)
    return name, queue, priority, parameters, due, None if expires is None else _expiry_ms(task, now), now, now


def _due_ms(task: NewTask, now: int) -> int:
    return now + milliseconds(task.delay) if task.run_at is None else milliseconds(task.run_at)


def _expiry_ms(task: NewTask, now: int) -> int | None:
    return None if task.expires is None else now + milliseconds(task.expires)


def read_attempt(row: Sequence[Any]) -> Attempt:
    """Return a failed attempt from its row."""
    values = dict(zip(Attempt._fields, row, strict=True))
    values.update(started_at=to_datetime(values["started_at"]), finished_at=to_datetime(values["finished_at"]))
    values.update(failure=json.loads(values["failure"]))
    return Attempt(**values)


def _read_task(row: Sequence[Any]) -> Task:
    values = dict(zip(Task._fields, row, strict=True))
    values.update({name: to_datetime(values[name]) for name in _TASK_TIMES})
    values.update(status=Status(values["status"]), suspect=bool(values["suspect"]))
    return Task(**values)
