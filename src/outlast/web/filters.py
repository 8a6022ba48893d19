"""Parse and check filters and page numbers before they reach the store."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from outlast.app import App
from outlast.operations import (
    FILTERS,
    ROW,
    InvalidValueError,
    Parameter,
    filter_arguments,
    parse_choice,
    parse_row,
    parse_text,
    parse_time,
    parse_values,
)
from outlast.ports.rows import DeadLetterFilter
from outlast.web.routing import Query

_MAX_TEXT_CHARS = 200


def text_param(query: Query, name: str) -> str | None:
    """Return a text of the query; None if it is missing or empty.

    Raises:
        InvalidValueError: If it is too long.
    """
    return parse_text(query.get(name, "").strip(), name, _MAX_TEXT_CHARS) or None


def choice_param(query: Query, name: str, choices: Iterable[str]) -> str | None:
    """Return a word of the query, in any case; None if it is missing or empty.

    Raises:
        InvalidValueError: If it is not one of the choices; the message lists them.
    """
    text = text_param(query, name)
    return None if text is None else parse_choice(text, name, choices)


def row_param(query: Query, name: str = "before") -> int | None:
    """Return the id of the row after which a page begins; None for the first page.

    Raises:
        InvalidValueError: If it is not the number of a row.
    """
    return parse_row(query[name], name) if name in query else None


def time_param(query: Query, name: str, now: datetime) -> datetime | None:
    """Return a time of the query; None if it is missing or empty. `parse_time` has the details."""
    text = text_param(query, name)
    return None if text is None else _whole_minute(parse_time(text, name, now))


def _whole_minute(at: datetime) -> datetime:
    """Return the minute of an age, so that the pages of a list have the same filter; other times stay as they are."""
    return at.replace(second=0, microsecond=0) if at.microsecond else at


FILTER_NAMES = tuple(each.name for each in FILTERS)
"""Query parameters that filter dead letters; forms, JSON and the command line share these names."""
_BEFORE = Parameter("before", ROW, "Only dead letters with smaller ids.")


def dead_letter_filter(app: App, query: Query, limit: int | None = None) -> DeadLetterFilter:
    """Return the filter of dead letters.

    Args:
        app: The app.
        query: Values by `FILTER_NAMES` and ``before``.
        limit: Most dead letters to return.

    Raises:
        InvalidValueError: If a value is not valid.
    """
    values = parse_values(app, (*FILTERS, _BEFORE), {name: [text] for name, text in query.items()})
    for name in ("since", "until"):
        values[name] = values[name] and _whole_minute(values[name])
    return DeadLetterFilter(**filter_arguments(values), before=values["before"], limit=limit)


T = TypeVar("T")
_MAX_PAGE_DIGITS = 6


class PagePosition(NamedTuple):
    """Which page of a list is shown.

    Attributes:
        number: Number of the page, from 1.
        last: Number of the last page.
        shown: Rows on this page.
        whole: Rows on all pages.
        more: Rows on later pages.
    """

    number: int
    last: int
    shown: int
    whole: int
    more: int


def paginate(rows: Sequence[T], query: Query, name: str, size: int) -> tuple[Sequence[T], PagePosition]:
    """Return the rows of a page and its position. A number beyond the last page gives the last page.

    Args:
        rows: All rows.
        query: The query parameters.
        name: Name of the parameter with the page number.
        size: Rows per page.

    Raises:
        InvalidValueError: If it is not a page number.
    """
    text = query.get(name, "1")
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_PAGE_DIGITS and int(text)):
        raise InvalidValueError(f"{name} is {text!r:.50}; it must be a page number")
    last = max(1, -(-len(rows) // size))
    number = min(int(text), last)
    shown = rows[(number - 1) * size : number * size]
    return shown, PagePosition(number, last, len(shown), len(rows), max(0, len(rows) - number * size))
