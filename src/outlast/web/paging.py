"""Pages of a list that is at hand as a whole: a page shows a part of it, and says how much more there is."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from outlast.web.routing import RefusedError

__all__ = ["Part", "part_of"]

T = TypeVar("T")
_MOST_DIGITS = 6


class Part(NamedTuple):
    """Which part of a list is shown.

    Attributes:
        number: Of the page, from 1.
        last: Number of the last one.
        shown: How many rows it has.
        whole: How many there are in all.
        more: How many follow.
    """

    number: int
    last: int
    shown: int
    whole: int
    more: int


def part_of(rows: Sequence[T], query: Mapping[str, str], name: str, size: int) -> tuple[Sequence[T], Part]:
    """Return the rows of a page, and which it is; behind the last page, that of the last.

    Args:
        rows: All of them.
        query: What was sent.
        name: In it, of the number of the page.
        size: Rows of a page.

    Raises:
        RefusedError: If it is no number of a page.
    """
    text = query.get(name, "1")
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text)):
        message = f"{name} is {text!r:.50}; give the number of a page"
        raise RefusedError(message)
    last = max(1, -(-len(rows) // size))
    number = min(int(text), last)
    shown = rows[(number - 1) * size : number * size]
    return shown, Part(number, last, len(shown), len(rows), max(0, len(rows) - number * size))
