r"""Rows of a SQLite table as the lines that COPY reads, made by SQLite itself.

Columns stand between tabs, what is not set is ``\N``, and what might be taken for either is escaped.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from outlast.errors import ConfigError
from outlast.stores.move.plan import CANCEL_HINT, COLUMN_EXPRESSIONS, GENERATED_COLUMNS, MOVED_TABLES, MoveError
from outlast.stores.move.source import SourceFile
from outlast.stores.move.target import TableProgress, TargetDatabase
from outlast.stores.postgres.driver import psycopg

_MAX_TIME_MS = 253_402_300_799_000  # the end of the year 9999, as the store reads times
_ESCAPES = (("'\\'", "'\\\\'"), ("char(9)", "'\\t'"), ("char(10)", "'\\n'"), ("char(13)", "'\\r'"))
_TIME = "strftime('%Y-%m-%d %H:%M:%f', min(max({0}, 0), {1}) / 1000.0, 'unixepoch') || '+00'"
_ARRAY = (
    "(SELECT '{{' || coalesce(group_concat('\"' || replace(replace(value, '\\', '\\\\'), '\"', '\\\"') || '\"'), '')"
    " || '}}' FROM json_each({0}))"
)


class Column(NamedTuple):
    """A column of the target.

    Attributes:
        name: Of it.
        kind: Its type in PostgreSQL.
        expression: What gives it in SQLite.
    """

    name: str
    kind: str
    expression: str


def select_lines(table: str, columns: Sequence[Column], key: Sequence[str], *, after: bool) -> str:
    """Return the statement whose rows are lines, each followed by the key of its row.

    Args:
        table: Whose.
        columns: Those of a line, in their order.
        key: The columns of the primary key, by which it is ordered.
        after: Whether it begins behind a key; its values are the first parameters. The last is how many are wanted.
    """
    line = " || char(9) || ".join(map(_field_expression, columns))
    keys = ", ".join(key)
    behind = f"WHERE ({keys}) > ({', '.join('?' * len(key))}) " if after else ""
    return f"SELECT CAST({line} AS BLOB), {keys} FROM {table} {behind}ORDER BY {keys} LIMIT ?"  # noqa: S608  # our own names


def _field_expression(column: Column) -> str:
    _, kind, given = column
    if kind.startswith("timestamp"):
        text = _TIME.format(given, _MAX_TIME_MS)
    elif kind.endswith("[]"):
        text = _escape_expression(_ARRAY.format(given))
    elif kind == "double precision":
        text = f"printf('%!.17g', {given})"  # as many digits as tell two numbers apart
        text = f"CASE WHEN {given} IS NOT NULL THEN {text} END"
    elif kind == "text":
        text = _escape_expression(given)
    else:
        text = given
    return f"coalesce({text}, '\\N')"


def _escape_expression(text: str) -> str:
    for sign, escape in _ESCAPES:
        text = f"replace({text}, {sign}, {escape})"
    return text


# Rows from a file to PostgreSQL, in batches; each is written together with how far it got.

_REFUSED_STATES = ("22", "23", "54")  # classes of SQLSTATE by which the server refuses a row: data, constraint, limit


class MoveProgress(NamedTuple):
    """How far a move is.

    Attributes:
        doing: What is being done, or the table that is copied.
        rows: Rows that are there, of all tables.
        total: Rows that there will be.
    """

    doing: str
    rows: int
    total: int


class _CopiedTable(NamedTuple):
    """A table that is copied.

    Attributes:
        name: Of it.
        columns: Those that are copied, in their order.
        key: The columns of its primary key in the file.
    """

    name: str
    columns: list[Column]
    key: list[str]


class _CopyLines:
    """Lines on their way, with how many went and the key of the last."""

    def __init__(self, rows: Iterable[tuple[bytes, list[Any]]]) -> None:
        self._rows = rows
        self.count = 0
        self.last: list[Any] | None = None

    def __iter__(self) -> Iterator[bytes]:
        for line, key in self._rows:
            self.count, self.last = self.count + 1, key
            yield line


def copy_tables(
    source: SourceFile, target: TargetDatabase, receipt: str, batch: int, progress: Callable[[MoveProgress], object]
) -> int:
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
    for name in MOVED_TABLES:
        table, done = _copied_table(source, target, name), False
        while not done:
            with target.receiving(receipt) as known:
                state = known.get(name, TableProgress())
                if not state.done:
                    reached = _copy_batch(source, target, table, state, batch)
                    copied += reached.rows - state.rows
                    known[name] = state = reached
                    target.note(known)
                done = state.done
            progress(MoveProgress(name, sum(each.rows for each in known.values()), total))
    return copied


def _copied_table(source: SourceFile, target: TargetDatabase, name: str) -> _CopiedTable:
    """Return what is copied of a table.

    Raises:
        ConfigError: If the file lacks a column: then its tables were changed by hand.
    """
    there, key = source.columns(name)
    given, drawn = COLUMN_EXPRESSIONS.get(name, {}), GENERATED_COLUMNS.get(name, set())
    columns = [
        Column(each, kind, given.get(each, each)) for each, kind in target.columns(name).items() if each not in drawn
    ]
    missing = [each.name for each in columns if each.name not in {*there, *given}]
    if missing:
        message = f"{name} of the file has no column {', '.join(missing)}; were its tables changed by hand?"
        raise ConfigError(message)
    return _CopiedTable(name, columns, key)


def _copy_batch(
    source: SourceFile, target: TargetDatabase, table: _CopiedTable, state: TableProgress, limit: int
) -> TableProgress:
    """Copy the next rows of a table; return how far it is then."""
    sql = select_lines(*table, after=state.after is not None)
    values = [*(state.after or ()), limit]
    rows, names = _CopyLines(source.lines(sql, values)), [each.name for each in table.columns]
    try:
        with target.connection.transaction():
            target.write(table.name, names, rows)
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] not in _REFUSED_STATES:
            raise
        key = _first_refused(target, table.name, names, lambda: source.lines(sql, values), limit)
        row = ", ".join(f"{name} {value}" for name, value in zip(table.key, key, strict=True))
        reason = (error.diag.message_primary or str(error)).strip()
        message = (
            f"PostgreSQL refuses the row of {table.name} with {row}: {reason}; {CANCEL_HINT}: put the row right there"
        )
        raise MoveError(message) from error
    return TableProgress(state.rows + rows.count, rows.last or state.after, rows.count < limit)


def _first_refused(
    target: TargetDatabase,
    table: str,
    names: list[str],
    read: Callable[[], Iterable[tuple[bytes, list[Any]]]],
    limit: int,
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
