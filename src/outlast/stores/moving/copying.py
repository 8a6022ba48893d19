"""Rows from a file to PostgreSQL, in batches; each is written together with how far it got."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from outlast.errors import ConfigError
from outlast.stores.moving.errors import CANCEL, MoveError
from outlast.stores.moving.lines import Column, select_lines
from outlast.stores.moving.plan import DRAWN, GIVEN, MOVED
from outlast.stores.moving.source import Source
from outlast.stores.moving.target import Progress, Target
from outlast.stores.postgres.driver import psycopg

__all__ = ["Step", "copy"]

_REFUSED = ("22", "23", "54")  # classes of SQLSTATE by which the server refuses a row: data, constraint, limit


class Step(NamedTuple):
    """How far a move is.

    Attributes:
        doing: What is being done, or the table that is copied.
        rows: Rows that are there, of all tables.
        total: Rows that there will be.
    """

    doing: str
    rows: int
    total: int


class _Table(NamedTuple):
    """A table that is copied.

    Attributes:
        name: Of it.
        columns: Those that are copied, in their order.
        key: The columns of its primary key in the file.
    """

    name: str
    columns: list[Column]
    key: list[str]


class _Rows:
    """Lines on their way, with how many went and the key of the last."""

    def __init__(self, rows: Iterable[tuple[bytes, list[Any]]]) -> None:
        self._rows = rows
        self.count = 0
        self.last: list[Any] | None = None

    def __iter__(self) -> Iterator[bytes]:
        for line, key in self._rows:
            self.count, self.last = self.count + 1, key
            yield line


def copy(source: Source, target: Target, receipt: str, batch: int, progress: Callable[[Step], object]) -> int:
    """Copy what is not there yet, batch by batch; return how many rows this call has copied.

    How far a table is stands in the target and is looked up for each batch: two that copy at once take turns.

    Args:
        source: The file, frozen.
        target: The database, guarded.
        receipt: Of the move.
        batch: Rows that are written in one transaction.
        progress: Called after each.
    """
    total, copied = sum(source.counts().values()), 0
    for name in MOVED:
        table, done = _table(source, target, name), False
        while not done:
            with target.receiving(receipt) as known:
                state = known.get(name, Progress())
                if not state.done:
                    reached = _copy_batch(source, target, table, state, batch)
                    copied += reached.rows - state.rows
                    known[name] = state = reached
                    target.note(known)
                done = state.done
            progress(Step(name, sum(each.rows for each in known.values()), total))
    return copied


def _table(source: Source, target: Target, name: str) -> _Table:
    """Return what is copied of a table.

    Raises:
        ConfigError: If the file lacks a column: then its tables were changed by hand.
    """
    there, key = source.columns(name)
    given, drawn = GIVEN.get(name, {}), DRAWN.get(name, set())
    columns = [
        Column(each, kind, given.get(each, each)) for each, kind in target.columns(name).items() if each not in drawn
    ]
    missing = [each.name for each in columns if each.name not in {*there, *given}]
    if missing:
        message = f"{name} of the file has no column {', '.join(missing)}; were its tables changed by hand?"
        raise ConfigError(message)
    return _Table(name, columns, key)


def _copy_batch(source: Source, target: Target, table: _Table, state: Progress, limit: int) -> Progress:
    """Copy the next rows of a table; return how far it is then."""
    sql = select_lines(*table, after=state.after is not None)
    values = [*(state.after or ()), limit]
    rows, names = _Rows(source.lines(sql, values)), [each.name for each in table.columns]
    try:
        with target.connection.transaction():
            target.write(table.name, names, rows)
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] not in _REFUSED:
            raise
        key = _refused(target, table.name, names, lambda: source.lines(sql, values), limit)
        row = ", ".join(f"{name} {value}" for name, value in zip(table.key, key, strict=True))
        reason = (error.diag.message_primary or str(error)).strip()
        message = f"PostgreSQL refuses the row of {table.name} with {row}: {reason}; {CANCEL}: put the row right there"
        raise MoveError(message) from error
    return Progress(state.rows + rows.count, rows.last or state.after, rows.count < limit)


def _refused(
    target: Target, table: str, names: list[str], read: Callable[[], Iterable[tuple[bytes, list[Any]]]], limit: int
) -> list[Any]:
    """Return the key of the first row that is refused: the batch is tried again by halves, nothing of it is kept."""
    fine, refused = 0, limit
    while refused - fine > 1:
        middle = (fine + refused) // 2
        try:
            with target.connection.transaction(force_rollback=True):
                target.write(table, names, (line for line, _ in islice(read(), middle)))
        except psycopg.Error:
            refused = middle
        else:
            fine = middle
    return next(key for _, key in islice(read(), fine, None))
