"""How tasks get into PostgreSQL: one in one statement, many plain ones by COPY, all others as one JSON text."""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import repeat
from typing import Any

from outlast.errors import ConfigError
from outlast.ports.batch import Batch
from outlast.ports.rows import Enqueued, NewTask
from outlast.stores.postgres.connection import Connection
from outlast.stores.postgres.driver import psycopg

__all__ = ["add", "callers"]

_CHUNK = 1000  # rows of a COPY that are written at a time
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def callers(connection: Any) -> Connection:
    """Return a caller's connection, if it is one that this store can use.

    Raises:
        ConfigError: If it is not.
    """
    if not isinstance(connection, psycopg.Connection):
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        message = f"connection is {kind}; this store takes a psycopg.Connection, the one that is not async"
        raise ConfigError(message)
    return connection


def add(
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
        samples = [tasks.alike] if isinstance(tasks, Batch) else tasks
        if all(map(_is_plain, samples)) and connection.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF:
            return _copy(cursor, sql, tasks)
        return _add_keyed(cursor, sql, tasks)


def _is_plain(task: NewTask) -> bool:
    """Tell whether a task is due now and has no more than a name and arguments."""
    return task[4:] == (0.0, None, None, None, None)


def _copy(cursor: Any, sql: dict[str, bytes], tasks: Sequence[NewTask]) -> list[Enqueued]:
    numbers = _drawn(cursor, sql, len(tasks))
    with cursor.copy(sql["copy_tasks"]) as copy:
        for begin in range(0, len(tasks), _CHUNK):  # the server reads one while we write the next
            copy.write(_lines(numbers[begin : begin + _CHUNK], *_columns(tasks, begin)))
        added = [*map(Enqueued, numbers, repeat(True))]  # noqa: FBT003  # a field of a row; and while the server works
    cursor.execute(sql["finish_copy"], {"count": len(tasks)})
    return added


def _drawn(cursor: Any, sql: dict[str, bytes], count: int) -> Sequence[int]:
    """Draw numbers: mostly they follow each other, and then need not be told one by one."""
    first, last = cursor.execute(sql["reserve_id_range"], {"count": count}).fetchall()[0]
    if last - first + 1 == count:
        return range(first, last + 1)
    return [row[0] for row in cursor.execute(sql["reserve_ids"], {"count": count})]


def _columns(tasks: Sequence[NewTask], begin: int) -> tuple[Iterable[str], list[str]]:
    """Return the columns before the arguments, and the arguments, of a part of the tasks."""
    if isinstance(tasks, Batch):
        return repeat(_head(tasks.alike)), tasks.texts(begin, begin + _CHUNK)
    part = tasks[begin : begin + _CHUNK]
    return map(_head, part), [each.parameters for each in part]


def _head(task: NewTask) -> str:
    return f"{_escaped(task.task_type)}\t{_escaped(task.queue)}\t{task.priority}\tt"


def _lines(numbers: Sequence[int], heads: Iterable[str], texts: list[str]) -> str:
    """Return rows as COPY reads them: columns between tabs, and what might be taken for more is escaped."""
    everything = " ".join(texts)
    if any(sign in everything for sign, _ in _ESCAPES):
        texts = [*map(_escaped, texts)]
    return "".join([f"{number}\t{head}\t{text}\n" for number, head, text in zip(numbers, heads, texts, strict=False)])


def _escaped(text: str) -> str:
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
