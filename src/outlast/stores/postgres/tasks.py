"""Tasks in PostgreSQL: enqueueing, lookup, cancelling and pruning."""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from itertools import repeat
from typing import Any

from outlast.errors import ConfigError
from outlast.ports.rows import Enqueued, NewTask, SettleAndClaim, SettleAndClaimResult, TaskBatch
from outlast.stores.filters import GROUP_RETENTION
from outlast.stores.postgres.connection import Connection, PostgresCursor, PostgresDatabase
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.notify import NotifyThrottle
from outlast.stores.postgres.settle_and_claim import settle_and_claim
from outlast.stores.shared_methods import SharedTasks

_BATCH = 1000
_CHUNK = 1000  # rows of a COPY that are sent at a time
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def caller_connection(connection: Any) -> Connection:
    """Return a caller's connection after checking its type.

    Raises:
        ConfigError: If this store cannot use it.
    """
    if not isinstance(connection, psycopg.Connection):
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise ConfigError(f"connection is {kind}; it must be a psycopg.Connection (not async)")
    return connection


def add_tasks(cursor: PostgresCursor, tasks: Sequence[NewTask], *, quiet: bool = False) -> list[Enqueued]:
    """Add tasks, in the open transaction of the connection or in one of their own.

    A single plain task is one statement, many plain tasks are a COPY, all others are one JSON text. A connection that
    is not in autocommit mode stays in its transaction.

    Args:
        cursor: Of the connection.
        tasks: The tasks.
        quiet: Whether the statement for a single plain task must not notify workers.
    """
    if not tasks:
        return []
    each = tasks[0]
    if len(tasks) == 1 and each.unique_key is None:
        plain = (
            each.task_type, each.queue, each.priority, each.parameters, each.options, each.expires, each.resource,
            each.run_at, each.delay,
        )  # fmt: skip
        name = "add_task_without_notify" if quiet else "add_plain_task"
        return [Enqueued(cursor.fetch(name, plain)[0][0], created=True)]
    connection = cursor.connection
    with connection.transaction() if connection.autocommit and len(tasks) > 1 else nullcontext():
        return _copy(cursor, tasks) if _can_be_copied(cursor, tasks) else _add_keyed(cursor, tasks)


def _can_be_copied(cursor: PostgresCursor, tasks: Sequence[NewTask]) -> bool:
    if isinstance(tasks, TaskBatch):
        is_plain, has_resource = _is_plain(tasks.alike), tasks.has_resource
    else:
        is_plain, has_resource = all(map(_is_plain, tasks)), any(each.resource is not None for each in tasks)
    if not is_plain or cursor.connection.pgconn.pipeline_status != psycopg.pq.PipelineStatus.OFF:
        return False
    return not has_resource or not cursor.fetch("any_cooldown")[0][0]


def _is_plain(task: NewTask) -> bool:
    """Return whether a task is due now, has no key and does not expire."""
    return (task.delay, task.run_at, task.unique_key, task.expires) == (0.0, None, None, None)


def _copy(cursor: PostgresCursor, tasks: Sequence[NewTask]) -> list[Enqueued]:
    numbers = _draw_ids(cursor, len(tasks))
    with cursor.cursor.copy(cursor.sql["copy_tasks"]) as copy:
        for begin in range(0, len(tasks), _CHUNK):  # the server reads one chunk while we build the next
            copy.write(_copy_lines(numbers[begin : begin + _CHUNK], *_copy_columns(tasks, begin)))
        added = [*map(Enqueued, numbers, repeat(True))]  # noqa: FBT003  # a field of a row
    cursor.fetch("finish_copy", {"count": len(tasks)})
    return added


def _draw_ids(cursor: PostgresCursor, count: int) -> Sequence[int]:
    """Reserve task ids. They are mostly consecutive, and then need not be read one by one."""
    ((first, last),) = cursor.fetch("reserve_id_range", {"count": count})
    if last - first + 1 == count:
        return range(first, last + 1)
    return cursor.column("reserve_ids", {"count": count})


def _copy_columns(tasks: Sequence[NewTask], begin: int) -> tuple[Iterable[str], list[str]]:
    """Return the leading columns and the arguments of a chunk of tasks."""
    if isinstance(tasks, TaskBatch):
        alike, texts = _line_head(tasks.alike), tasks.texts(begin, begin + _CHUNK)
        if not tasks.has_resource:
            return repeat(f"{alike}\t\\N"), texts
        return [f"{alike}\t{_nullable(each)}" for each in tasks.resources(begin, begin + _CHUNK)], texts
    part = tasks[begin : begin + _CHUNK]
    heads = [f"{_line_head(each)}\t{_nullable(each.resource)}" for each in part]
    return heads, [each.parameters for each in part]


def _line_head(task: NewTask) -> str:
    return f"{_escape(task.task_type)}\t{_escape(task.queue)}\t{task.priority}\tt\t{_nullable(task.options)}"


def _nullable(text: str | None) -> str:
    return "\\N" if text is None else _escape(text)


def _copy_lines(numbers: Sequence[int], heads: Iterable[str], texts: list[str]) -> str:
    """Return rows in the text format of COPY, with special characters escaped."""
    all_texts = " ".join(texts)
    if any(sign in all_texts for sign, _ in _ESCAPES):
        texts = [*map(_escape, texts)]
    return "".join([f"{number}\t{head}\t{text}\n" for number, head, text in zip(numbers, heads, texts, strict=False)])


def _escape(text: str) -> str:
    for plain, escape in _ESCAPES:
        text = text.replace(plain, escape)
    return text


def _add_keyed(cursor: PostgresCursor, tasks: Sequence[NewTask]) -> list[Enqueued]:
    """Add tasks of any kind.

    A task with the same key may end between the insert and the lookup. Then the remaining tasks are tried again.
    """
    added: list[Enqueued | None] = [None] * len(tasks)
    left = list(range(len(tasks)))
    while left:
        values = {"tasks": _dumps([tasks[place]._asdict() for place in left])}
        for place, (number, _) in zip(left, cursor.fetch("add_tasks", values), strict=True):
            if number is not None:
                added[place] = Enqueued(number, created=True)
        left = [place for place in left if added[place] is None]
        if left:
            keys = [{"task_type": tasks[place].task_type, "unique_key": tasks[place].unique_key} for place in left]
            taken = cursor.fetch("live_by_key", {"tasks": _dumps(keys)})
            for place, (number,) in zip(left, taken, strict=True):
                if number is not None:
                    added[place] = Enqueued(number, created=False)
            left = [place for place in left if added[place] is None]
    return [each for each in added if each is not None]


class PostgresTasks(SharedTasks):
    """Implements `Tasks`."""

    db: PostgresDatabase
    notify_throttle: NotifyThrottle

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks, in the caller's transaction if a connection is given."""
        if connection is not None:
            return add_tasks(PostgresCursor(caller_connection(connection), self.db.sql), tasks)
        quiet = len(tasks) == 1 and not self.notify_throttle.may_notify_now()
        with self.db.connection() as own:
            added = add_tasks(PostgresCursor(own, self.db.sql), tasks, quiet=quiet)
        if quiet:
            self.notify_throttle.notify_later()
        return added

    def settle_and_claim(self, request: SettleAndClaim) -> SettleAndClaimResult:
        """Settle, start and claim tasks for a worker."""
        with self.db.connection() as connection:
            result, cooling = settle_and_claim(PostgresCursor(connection, self.db.sql), request)
        if cooling:
            with suppress(psycopg.OperationalError):  # the claim is committed; it skips tasks that are not deferred yet
                while self.db.change("defer_cooling_tasks") > 0:
                    pass
        return result

    def cancel(self, task_ids: Sequence[int]) -> list[int]:
        """Cancel queued or parked tasks."""
        return self.db.column("cancel", {"ids": list(task_ids)})

    def prune(self, *, done_before: float) -> int:
        """Delete old finished tasks, expired results and old failure groups."""
        pruned, after, count = 0, 0, _BATCH
        while count == _BATCH:
            values = {"seconds": float(done_before), "after": after, "batch": _BATCH}
            ((count, after),) = self.db.fetch("prune_tasks", values)
            pruned += count
        self._repeat("prune_groups", {"seconds": GROUP_RETENTION, "batch": _BATCH})
        return pruned + self._prune_leftovers()
