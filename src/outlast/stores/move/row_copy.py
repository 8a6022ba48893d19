r"""Copies rows from SQLite to PostgreSQL in batches. SQLite itself builds the lines for COPY.

Columns are separated by tabs, NULL is ``\N``, and special characters are escaped.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from outlast.errors import ConfigError
from outlast.stores.move.plan import CANCEL_HINT, COLUMN_EXPRESSIONS, GENERATED_COLUMNS, MOVED_TABLES, MoveError
from outlast.stores.move.source import SourceFile
from outlast.stores.move.target import TableProgress, TargetDatabase
from outlast.stores.postgres.driver import psycopg

_MAX_TIME_MS = 253_402_300_799_000  # the end of the year 9999, the same limit as in the store
_ESCAPES = (("'\\'", "'\\\\'"), ("char(9)", "'\\t'"), ("char(10)", "'\\n'"), ("char(13)", "'\\r'"))
_TIME = "strftime('%Y-%m-%d %H:%M:%f', min(max({0}, 0), {1}) / 1000.0, 'unixepoch') || '+00'"
_ARRAY = (
    "(SELECT '{{' || coalesce(group_concat('\"' || replace(replace(value, '\\', '\\\\'), '\"', '\\\"') || '\"'), '')"
    " || '}}' FROM json_each({0}))"
)


class Column(NamedTuple):
    """A column of the target.

    Attributes:
        name: Its name.
        kind: Its PostgreSQL type.
        expression: The SQLite expression for its value.
    """

    name: str
    kind: str
    expression: str


def select_lines(table: str, columns: Sequence[Column], key: Sequence[str], *, after: bool) -> str:
    """Return the statement that selects lines, each with the key of its row.

    Args:
        table: Name of the table.
        columns: Columns of a line, in this order.
        key: Columns of the primary key, which define the order.
        after: Whether to start after a key, whose values are the first parameters. The last parameter is the limit.
    """
    line = " || char(9) || ".join(map(_field_expression, columns))
    keys = ", ".join(key)
    behind = f"WHERE ({keys}) > ({', '.join('?' * len(key))}) " if after else ""
    return f"SELECT CAST({line} AS BLOB), {keys} FROM {table} {behind}ORDER BY {keys} LIMIT ?"  # noqa: S608  # our own names


def _field_expression(column: Column) -> str:
    _, kind, value = column
    if kind.startswith("timestamp"):
        text = _TIME.format(value, _MAX_TIME_MS)
    elif kind.endswith("[]"):
        text = _escape_expression(_ARRAY.format(value))
    elif kind == "double precision":
        text = f"printf('%!.17g', {value})"  # enough digits to distinguish any two numbers
        text = f"CASE WHEN {value} IS NOT NULL THEN {text} END"
    elif kind == "text":
        text = _escape_expression(value)
    else:
        text = value
    return f"coalesce({text}, '\\N')"


def _escape_expression(text: str) -> str:
    for sign, escape in _ESCAPES:
        text = f"replace({text}, {sign}, {escape})"
    return text


_REFUSED_STATES = ("22", "23", "54")  # SQLSTATE classes of rejected rows: data, constraint, program limit


class MoveProgress(NamedTuple):
    """Progress of a move.

    Attributes:
        doing: The current step, or the table that is being copied.
        rows: Rows copied so far, over all tables.
        total: Rows to copy.
    """

    doing: str
    rows: int = 0
    total: int = 0


class _CopiedTable(NamedTuple):
    """A table to copy.

    Attributes:
        name: Its name.
        columns: The columns to copy, in this order.
        key: Columns of its primary key in the file.
    """

    name: str
    columns: list[Column]
    key: list[str]


class _CopyLines:
    """An iterator over lines that counts them and remembers the key of the last one."""

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
    """Copy the remaining rows batch by batch; return how many rows this call copied.

    The progress of a table is stored in the target and read for each batch, so two processes can copy at once.

    Args:
        source: The file, frozen.
        target: The database, guarded.
        receipt: Receipt of the move.
        batch: Rows per transaction.
        progress: Called after each batch.
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
                    target.save_progress(known)
                done = state.done
            progress(MoveProgress(name, sum(each.rows for each in known.values()), total))
    return copied


def _copied_table(source: SourceFile, target: TargetDatabase, name: str) -> _CopiedTable:
    """Return what to copy of a table.

    Raises:
        ConfigError: If the file lacks a column, because its tables were changed by hand.
    """
    source_columns, key = source.columns(name)
    expressions, generated = COLUMN_EXPRESSIONS.get(name, {}), GENERATED_COLUMNS.get(name, set())
    columns = [
        Column(each, kind, expressions.get(each, each))
        for each, kind in target.columns(name).items()
        if each not in generated
    ]
    missing = [each.name for each in columns if each.name not in {*source_columns, *expressions}]
    if missing:
        raise ConfigError(
            f"table {name} of the file has no column {', '.join(missing)}; were its tables changed by hand?"
        )
    return _CopiedTable(name, columns, key)


def _copy_batch(
    source: SourceFile, target: TargetDatabase, table: _CopiedTable, state: TableProgress, limit: int
) -> TableProgress:
    """Copy the next rows of a table; return its progress."""
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
        raise MoveError(
            f"PostgreSQL refuses the row of {table.name} with {row}: {reason}; {CANCEL_HINT}: correct the row there"
        ) from error
    return TableProgress(state.rows + rows.count, rows.last or state.after, rows.count < limit)


def _first_refused(
    target: TargetDatabase,
    table: str,
    names: list[str],
    read: Callable[[], Iterable[tuple[bytes, list[Any]]]],
    limit: int,
) -> list[Any]:
    """Return the key of the first refused row. Tries halves of the batch again; nothing of it is kept."""
    accepted, refused = 0, limit
    while refused - accepted > 1:
        middle = (accepted + refused) // 2
        try:
            with target.connection.transaction(force_rollback=True):
                target.write(table, names, (line for line, _ in islice(read(), middle)))
        except psycopg.Error:
            refused = middle
        else:
            accepted = middle
    return next(key for _, key in islice(read(), accepted, None))
