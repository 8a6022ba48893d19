"""Walks along dead letters in SQLite, by the narrowest index that a filter has."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from outlast.ports.rows import DeadLetterFilter
from outlast.sql_files import load_statements
from outlast.stores.sqlite.times import milliseconds

__all__ = ["BEYOND", "Walk", "by_filter", "letter_walk", "walk_values"]

SQL = load_statements(__package__)
BEYOND = 1 << 62
"""Larger than every number."""
_INDEXED = ("ids", "fingerprint", "task_type", "category")
"""Filters of dead letters that have an index, the most selective first."""


class Walk(NamedTuple):
    """A statement whose rows are numbers of dead letters, each with whether the filter means it."""

    sql: str
    values: dict[str, Any]

    def rows(self, connection: sqlite3.Connection) -> Iterator[tuple[int, bool]]:
        """Yield them; whoever reads stops."""
        for number, fits in connection.execute(*self):
            yield number, bool(fits)


def by_filter(which: DeadLetterFilter) -> str:
    """Return the ending of the statement that reads along the most selective index of a filter."""
    return next((f"_by_{name}" for name in _INDEXED if getattr(which, name) is not None), "")


def letter_walk(connection: sqlite3.Connection, which: DeadLetterFilter, *, after: int | None = None) -> Walk:
    """Return the walk for a filter.

    Args:
        connection: For the ids between which its times lie.
        which: What is looked for; its limit is ignored.
        after: Where a walk from the oldest on begins; not given, it goes from the newest back.
    """
    name = "newest_matching" if after is None else "next_matching"
    return Walk(SQL[f"{name}{by_filter(which)}"], walk_values(connection, which, after))


def walk_values(connection: sqlite3.Connection, which: DeadLetterFilter, after: int | None = None) -> dict[str, Any]:
    """Return the values of a filter as the statements read them, and the ids between which they look."""
    values = which._asdict()
    for name in ("since", "until"):
        values[name] = None if values[name] is None else milliseconds(values[name].timestamp())
    least, most = 0, BEYOND
    if which.since is not None or which.until is not None:
        first, last = connection.execute(SQL["dead_letter_id_range"], values).fetchone()
        least = BEYOND if first is None and which.since is not None else first or 0
        most = (last or 0) + 1 if which.until is not None else most
    values["before"] = min(BEYOND if which.before is None else which.before, most)
    values["least"] = max(least, 0 if after is None else after + 1)
    values["ids"] = None if which.ids is None else json.dumps(which.ids)
    return values
