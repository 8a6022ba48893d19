"""Walks along dead letters in SQLite, by the narrowest index that a filter has."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from outlast.ports.rows import DeadLetterFilter
from outlast.stores.queries import queries
from outlast.stores.sqlite.times import milliseconds

__all__ = ["BEYOND", "Walk", "letter_walk"]

SQL = queries(__package__)
BEYOND = 1 << 62
"""Larger than every number."""
_ALONG = (  # the narrowest first
    ("fingerprint", "fingerprint", "dead_letter_queue_fingerprint"),
    ("task_type", "task_type", "dead_letter_queue_task"),
    ("category", "error_category", "dead_letter_queue_category"),
)


class Walk(NamedTuple):
    """A statement whose rows are numbers of dead letters, each with whether the filter means it."""

    sql: str
    values: dict[str, Any]

    def rows(self, connection: sqlite3.Connection) -> Iterator[tuple[int, bool]]:
        """Yield them; whoever reads stops."""
        for number, fits in connection.execute(*self):
            yield number, bool(fits)


def letter_walk(connection: sqlite3.Connection, which: DeadLetterFilter, *, after: int | None = None) -> Walk:
    """Return the walk for a filter.

    Args:
        connection: For the numbers between which its times lie.
        which: What is looked for; its limit is not looked at.
        after: Where a walk from the oldest on begins; not given, it goes from the newest back.
    """
    values = which._asdict()
    for name in ("since", "until"):
        values[name] = None if values[name] is None else milliseconds(values[name].timestamp())
    least, most = 0, BEYOND
    if which.since is not None or which.until is not None:
        first, last = connection.execute(SQL["dead_letter_bounds"], values).fetchone()
        least = BEYOND if first is None and which.since is not None else first or 0
        most = (last or 0) + 1 if which.until is not None else most
    values["before"] = min(BEYOND if which.before is None else which.before, most)
    values["least"] = max(least, 0 if after is None else after + 1)
    if which.ids is not None:
        along, by = "NOT INDEXED", "AND id IN (SELECT value FROM json_each(:ids))"
        values["ids"] = json.dumps(which.ids)
    else:
        given = [
            (f"INDEXED BY {index}", f"AND {column} = :{name}")
            for name, column, index in _ALONG
            if values[name] is not None
        ]
        along, by = given[0] if given else ("NOT INDEXED", "")
    sql = SQL["dead_letter_walk"].replace("--along--", along).replace("--by--", by)
    return Walk(sql.replace("--order--", "DESC" if after is None else ""), values)
