"""Tasks in SQLite: enqueueing, lookup, cancelling and pruning."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any

from outlast.errors import ConfigError
from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import Enqueued, NewTask, SettleAndClaim, SettleAndClaimResult, TaskBatch
from outlast.stores.filters import GROUP_RETENTION
from outlast.stores.shared_methods import SharedTasks
from outlast.stores.sqlite.connection import (
    SQL,
    SqliteDatabase,
    bind,
    caller_transaction,
    dumps,
    execute,
    milliseconds,
    now_ms,
)
from outlast.stores.sqlite.counters import count_new_tasks, write_event
from outlast.stores.sqlite.schema import migrate, schema_version
from outlast.stores.sqlite.settle_and_claim import settle_and_claim

_BATCH = 1000
_PRUNED_EVENTS = {
    "DONE": FlowEvent.PRUNED_DONE,
    "CANCELLED": FlowEvent.PRUNED_CANCELLED,
    "DISCARDED": FlowEvent.PRUNED_DISCARDED,
}


class SqliteTasks(SharedTasks):
    """Implements `Tasks`."""

    db: SqliteDatabase

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks, in the caller's transaction if a connection is given."""
        now = now_ms()
        if connection is None and len(tasks) == 1:
            (only,) = tasks
            if _is_plain(only):
                return [Enqueued(self.db.insert(SQL["add_plain_task"], _plain_row(only, now)), created=True)]
        if connection is not None:
            if not isinstance(connection, Connection):
                raise ConfigError(f"connection is {type(connection).__name__}; it must be a Connection")
            with caller_transaction(connection) as cursor:
                if schema_version(cursor) == 0:  # a new file, which our own connection cannot write now
                    migrate(cursor)
                return add_tasks(cursor, tasks, now)
        return self.db.write(lambda own: add_tasks(own, tasks, now))

    def settle_and_claim(self, request: SettleAndClaim) -> SettleAndClaimResult:
        """Settle, start and claim tasks for a worker."""
        return self.db.write(lambda connection: settle_and_claim(connection, request, now_ms()))

    def cancel(self, task_ids: Sequence[int]) -> list[int]:
        """Cancel queued or parked tasks."""
        values = bind({"ids": list(task_ids)})

        def work(connection: Connection) -> list[int]:
            rows = execute(connection, "cancel", values).fetchall()
            write_event(connection, FlowEvent.CANCELLED, len(rows), values["now"])
            return [row[0] for row in rows]

        return self.db.write(work)

    def prune(self, *, done_before: float) -> int:
        """Delete old finished tasks, expired results and old failure groups."""
        now = now_ms()
        values = {"before": now - milliseconds(done_before), "now": now, "batch": _BATCH, "after": 0}
        pruned = 0
        while rows := self.db.fetch("expired_tasks", values):
            ids = dumps([row[0] for row in rows])
            pruned += self.db.write(lambda connection: _prune_tasks(connection, ids, now))  # noqa: B023  # called now
            values["after"] = rows[-1][0]
        self._prune_old_groups(now - milliseconds(GROUP_RETENTION))
        return pruned + self._prune_leftovers()

    def _prune_old_groups(self, before: int) -> None:
        """Delete failure groups that were last seen before a time and have no dead letters and no note."""
        values = {"before": before, "seen": 0, "after": "", "batch": _BATCH}
        while rows := self.db.fetch("expired_groups", values):
            names = dumps([row[0] for row in rows])
            self.db.write(lambda connection: _prune_groups(connection, names, before))  # noqa: B023  # called now
            values["after"], values["seen"] = rows[-1]


def add_tasks(connection: Connection | sqlite3.Cursor, tasks: Sequence[NewTask], now: int) -> list[Enqueued]:
    """Add tasks within a transaction."""
    if len(tasks) == 1:
        return [_add_one(connection, tasks[0], now)]
    is_batch = isinstance(tasks, TaskBatch) and tasks.alike.unique_key is None
    if not is_batch and not all(map(_is_plain, tasks)):
        return [_add_one(connection, task, now) for task in tasks]
    for begin in range(0, len(tasks), _BATCH):
        if isinstance(tasks, TaskBatch):
            _add_alike(connection, tasks, begin, now)
        else:
            rows = [_plain_row(each, now) for each in tasks[begin : begin + _BATCH]]
            connection.executemany(SQL["add_plain_task"], rows)
    last = connection.execute("SELECT last_insert_rowid()").fetchone()[0]
    return [Enqueued(number, created=True) for number in range(last - len(tasks) + 1, last + 1)]


def _is_plain(task: NewTask) -> bool:
    return task.unique_key is None and task.resource is None and task.options is None


def _add_alike(connection: Connection | sqlite3.Cursor, tasks: TaskBatch, begin: int, now: int) -> None:
    """Add tasks without a key that differ only in their arguments and resources, in one statement."""
    alike, texts = tasks.alike, tasks.texts(begin, begin + _BATCH)
    values = alike._asdict() | {"due": _due_ms(alike, now), "expires_at": _expiry_ms(alike, now), "now": now}
    if tasks.has_resource or alike.options is not None:
        pairs = [*zip(texts, tasks.resources(begin, begin + _BATCH), strict=True)]
        execute(connection, "add_similar_tasks_of_resources", values | {"pairs": dumps(pairs)})
    else:
        execute(connection, "add_similar_tasks", values | {"parameters": dumps(texts)})


def _add_one(connection: Connection | sqlite3.Cursor, task: NewTask, now: int) -> Enqueued:
    if _is_plain(task):
        return Enqueued(execute(connection, "add_plain_task", _plain_row(task, now)).lastrowid or 0, created=True)
    values = task._asdict() | {"due": _due_ms(task, now), "expires_at": _expiry_ms(task, now), "now": now}
    row = execute(connection, "add_task", values).fetchone()
    if row is not None:
        return Enqueued(row[0], created=True)
    return Enqueued(execute(connection, "live_by_key", values).fetchone()[0], created=False)


def _prune_tasks(connection: Connection, ids: str, now: int) -> int:
    """Delete a batch of finished tasks with their histories."""
    count_new_tasks(connection, json.loads(ids)[-1])
    for name in ("delete_attempts", "delete_payload_edits"):
        execute(connection, name, (ids,))
    pruned = Counter(row[0] for row in execute(connection, "delete_tasks", (ids,)).fetchall())
    for status, count in pruned.items():
        write_event(connection, _PRUNED_EVENTS[status], count, now)
    return pruned.total()


def _prune_groups(connection: Connection, names: str, before: int) -> None:
    rows = execute(connection, "prune_groups", {"fingerprints": names, "before": before}).fetchall()
    if rows:
        execute(connection, "delete_group_alerts", {"gone": dumps([row[0] for row in rows])})


def _plain_row(task: NewTask, now: int) -> tuple[Any, ...]:
    """Return the columns of a task without a unique key, a resource and options."""
    name, parameters, queue, priority, delay, run_at, _, _, expires, _ = task
    due = now if not delay and run_at is None else _due_ms(task, now)
    return name, queue, priority, parameters, due, None if expires is None else _expiry_ms(task, now), now, now


def _due_ms(task: NewTask, now: int) -> int:
    return now + milliseconds(task.delay) if task.run_at is None else milliseconds(task.run_at)


def _expiry_ms(task: NewTask, now: int) -> int | None:
    return None if task.expires is None else now + milliseconds(task.expires)
