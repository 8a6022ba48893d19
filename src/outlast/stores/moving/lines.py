r"""Rows of a SQLite table as the lines that COPY reads, made by SQLite itself.

Columns stand between tabs, what is not set is ``\N``, and what might be taken for either is escaped.
"""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Column", "select_lines"]

_LAST = 253_402_300_799_000  # the end of the year 9999, as the store reads times
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
    line = " || char(9) || ".join(map(_field, columns))
    keys = ", ".join(key)
    behind = f"WHERE ({keys}) > ({', '.join('?' * len(key))}) " if after else ""
    return f"SELECT CAST({line} AS BLOB), {keys} FROM {table} {behind}ORDER BY {keys} LIMIT ?"  # noqa: S608  # our own names


def _field(column: Column) -> str:
    _, kind, given = column
    if kind.startswith("timestamp"):
        text = _TIME.format(given, _LAST)
    elif kind.endswith("[]"):
        text = _escaped(_ARRAY.format(given))
    elif kind == "double precision":
        text = f"printf('%!.17g', {given})"  # as many digits as tell two numbers apart
        text = f"CASE WHEN {given} IS NOT NULL THEN {text} END"
    elif kind == "text":
        text = _escaped(given)
    else:
        text = given
    return f"coalesce({text}, '\\N')"


def _escaped(text: str) -> str:
    for sign, escape in _ESCAPES:
        text = f"replace({text}, {sign}, {escape})"
    return text
