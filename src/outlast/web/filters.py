"""Parse and check filters, form fields, selected rows and page numbers, before they reach the store."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from outlast.failure import Category
from outlast.ports.rows import DeadLetterFilter, Reason
from outlast.units import DURATION_FORMAT, parse_duration
from outlast.web.routing import Form, InvalidInputError, NotFoundError, Query, parse_row_number

MAX_SELECTED = 500
"""Most rows that one action accepts."""
_MAX_TEXT_CHARS = 200


def text_param(query: Query, name: str) -> str | None:
    """Return a text of the query; None if it is missing or empty.

    Raises:
        InvalidInputError: If it is too long.
    """
    text = query.get(name, "").strip()
    if len(text) > _MAX_TEXT_CHARS:
        raise InvalidInputError(f"{name} has {len(text)} characters; at most {_MAX_TEXT_CHARS} are allowed")
    return text or None


def choice_param(query: Query, name: str, choices: Iterable[str]) -> str | None:
    """Return a word of the query, in any case; None if it is missing or empty.

    Raises:
        InvalidInputError: If it is not one of the choices; the message lists them.
    """
    text = text_param(query, name)
    words = {word.lower(): word for word in choices}
    if text is None or text.lower() in words:
        return None if text is None else words[text.lower()]
    raise InvalidInputError(f"{text!r} is not a valid {name}; choose one of: {', '.join(words)}")


def row_param(query: Query, name: str = "before") -> int | None:
    """Return the number of the row after which a page begins; None for the first page.

    Args:
        query: The query parameters.
        name: Name of the parameter.

    Raises:
        InvalidInputError: If it is not a row number.
    """
    text = query.get(name)
    return None if text is None else _row_number(text, f"{name} is {text!r:.50}; it must be a row number")


def time_param(query: Query, name: str, now: datetime) -> datetime | None:
    """Return a time of the query; None if it is missing or empty.

    Args:
        query: The query parameters.
        name: Name of the parameter: a time in UTC as a form sends it, an ISO time with an offset, or an age such as
            ``2h``.
        now: Start of an age, which is rounded down to a full minute.

    Raises:
        InvalidInputError: If it is not a time.
    """
    text = text_param(query, name)
    if text is None:
        return None
    iso_text = text[:11].replace(" ", "T") + text[11:].replace(" ", "+")  # a plus that was not encoded is a space
    try:
        at = datetime.fromisoformat(iso_text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        ago = parse_duration(text)
        if ago is not None:
            return (now - timedelta(seconds=ago)).replace(second=0, microsecond=0)
        raise InvalidInputError(
            f"{name} is {text!r}; it must be a time in UTC such as 2026-11-15T10:00, or an age: 15m, 2h, 3d"
        ) from None


def duration_field(text: str, name: str) -> float:
    """Return the seconds of ``30m``, ``1.5h`` or ``7d``.

    Raises:
        InvalidInputError: If it is not a duration.
    """
    seconds = parse_duration(text)
    if seconds is None:
        raise InvalidInputError(f"{name} is {text[:50]!r}; {DURATION_FORMAT}")
    return seconds


def selected_rows(form: Form, what: str) -> list[int]:
    """Return the numbers of the selected rows, each once, in their order.

    Args:
        form: The form; the rows are the values of ``number``.
        what: What the rows are, such as ``dead letter``, for messages.

    Raises:
        InvalidInputError: If no row or too many are selected, or a value is not a row number.
    """
    texts = list(dict.fromkeys(form.get("number", [])))
    if not texts:
        raise InvalidInputError(f"no {what} was selected")
    if len(texts) > MAX_SELECTED:
        raise InvalidInputError(
            f"{len(texts)} {what}s are selected; select at most {MAX_SELECTED}, or use the command line"
        )
    return [_row_number(text, f"{text!r:.50} is not the number of a {what}") for text in texts]


def _row_number(text: str, message: str) -> int:
    try:
        return parse_row_number(text)
    except NotFoundError:
        raise InvalidInputError(message) from None


def return_path(form: Form, path: str, names: Iterable[str], more: Query) -> str:
    """Return the path of the list that an action came from, with its filter.

    Args:
        form: The form; ``back`` is the query of the list.
        path: Path of the list.
        names: Filter parameters that the list has; others are dropped.
        more: Additional parameters.
    """
    known = set(names)
    pairs = parse_qsl("".join(form.get("back", [])[:1])[:2000])
    query = urlencode({**{name: value for name, value in pairs if name in known}, **more})
    return f"{path}?{query}" if query else path


DEAD_LETTER_PARAMS = ("category", "task", "group", "reason", "queue", "since", "until", "text")
"""Filter parameters of dead letters; pages and the command line share these names."""


def dead_letter_filter(query: Query, now: datetime, limit: int | None = None) -> DeadLetterFilter:
    """Return the filter of dead letters.

    Args:
        query: Values by `DEAD_LETTER_PARAMS` and ``before``.
        now: Start of an age such as ``2h``.
        limit: Most dead letters to return.

    Raises:
        InvalidInputError: If a value is not valid.
    """
    return DeadLetterFilter(
        task_type=text_param(query, "task"),
        queue=text_param(query, "queue"),
        category=choice_param(query, "category", Category),
        reason=choice_param(query, "reason", Reason),
        fingerprint=text_param(query, "group"),
        since=time_param(query, "since", now),
        until=time_param(query, "until", now),
        text=text_param(query, "text"),
        before=row_param(query),
        limit=limit,
    )


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
        InvalidInputError: If it is not a page number.
    """
    text = query.get(name, "1")
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_PAGE_DIGITS and int(text)):
        raise InvalidInputError(f"{name} is {text!r:.50}; it must be a page number")
    last = max(1, -(-len(rows) // size))
    number = min(int(text), last)
    shown = rows[(number - 1) * size : number * size]
    return shown, PagePosition(number, last, len(shown), len(rows), max(0, len(rows) - number * size))
