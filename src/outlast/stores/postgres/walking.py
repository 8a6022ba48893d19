"""Pages of a walk along an index, as the statements of the lists return it.

A row begins with its place in the walk, whether it was the last one, and whether it matches. The walk goes one row
further than may be looked at, to see whether there is one.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from outlast.ports.read_rows import Page
from outlast.ports.rows import DeadLetterFilter
from outlast.stores.postgres.connection import Rows

__all__ = ["bounded", "by_filter", "has_nul", "meant", "page_of", "searched"]

T = TypeVar("T")
_INDEXED = ("ids", "fingerprint", "task_type", "category")
"""Filters of dead letters that have an index, the most selective first."""


def by_filter(which: DeadLetterFilter) -> str:
    """Return the ending of the statement that reads along the most selective index of a filter."""
    return next((f"_by_{name}" for name in _INDEXED if getattr(which, name) is not None), "")


def meant(which: DeadLetterFilter) -> dict[str, Any]:
    """Return the values of a filter as the statements read them."""
    return searched(which._asdict()) | {"ids": None if which.ids is None else list(which.ids)}


def bounded(limit: int, look: int) -> dict[str, int]:
    """Return the bounds of a statement: one match more than a page has, and two rows that are returned in any case."""
    return {"look": look, "rows": limit + 3}


def page_of(
    rows: Rows, limit: int, look: int, place: Callable[[Sequence[Any]], str], made: Callable[[Sequence[Any]], T]
) -> Page[T]:
    """Return a page of what was found.

    Args:
        rows: Of the walk.
        limit: How many a page has.
        look: How many may be looked at.
        place: Tells of a row, without its head, where the page that ends with it goes on.
        made: Makes of such a row what the page shows.
    """
    found = [row for row in rows if row[2] and row[0] <= look]
    page = [made(row[3:]) for row in found[:limit]]
    if len(found) > limit:
        return Page(page, place(found[limit - 1][3:]) if limit else None, found[limit][0])
    looked = min(rows[-1][0], look) if rows else 0
    ended = not rows or rows[-1][0] <= look
    beyond = None if ended else next(place(row[3:]) for row in rows if row[0] == look)
    return Page(page, beyond, looked)


def searched(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a filter with its text as the statements look for it: as it is, or as a pattern.

    What upper and lower case are beyond ASCII depends on the database; a pattern tells it.
    """
    text: str | None = values["text"]
    if text is None or text.isascii():
        return values | {"pattern": None}
    folded = "".join(map(_either, text.casefold()))
    return values | {"text": None, "pattern": folded.replace("ss", "(?:ss|[ßẞ])")}


def _either(sign: str) -> str:
    """Return what matches a letter in both cases; those of ASCII are matched so anyway."""
    if sign.isascii():
        return sign if sign.isalnum() else f"\\{sign}"
    return f"[{sign}{sign.upper()}]" if len(sign.upper()) == 1 else sign


def has_nul(values: dict[str, Any]) -> bool:
    """Tell whether a text has a sign that PostgreSQL keeps in none: then nothing matches."""
    return any(isinstance(value, str) and "\0" in value for value in values.values())
