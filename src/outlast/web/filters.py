"""What people sent to narrow a list or to choose rows, checked before a store sees it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from outlast.failure import Category
from outlast.ports.rows import DeadLetterFilter, Reason
from outlast.units import DURATION_FORMAT, parse_duration
from outlast.web.routing import InvalidInputError, NotFoundError, parse_row_number

MAX_SELECTED = 500
"""Rows that one action takes."""
_MAX_TEXT_CHARS = 200  # characters


def text_param(query: Mapping[str, str], name: str) -> str | None:
    """Return a text that narrows; None where none was given.

    Raises:
        RefusedError: If it is longer than any name is.
    """
    text = query.get(name, "").strip()
    if len(text) > _MAX_TEXT_CHARS:
        message = f"{name} has {len(text)} characters; {_MAX_TEXT_CHARS} are enough"
        raise InvalidInputError(message)
    return text or None


def choice_param(query: Mapping[str, str], name: str, choices: Iterable[str]) -> str | None:
    """Return a word that narrows; None where none was given.

    Raises:
        RefusedError: If it is none of the words; the message lists them.
    """
    text = text_param(query, name)
    words = {word.lower(): word for word in choices}
    if text is None or text.lower() in words:
        return None if text is None else words[text.lower()]
    message = f"{text!r} is no {name}; choose one of: {', '.join(words)}"
    raise InvalidInputError(message)


def row_param(query: Mapping[str, str], name: str = "before") -> int | None:
    """Return where a page begins: behind a row of this number; None for the first page.

    Args:
        query: What was sent.
        name: In it, of that number.

    Raises:
        RefusedError: If it is no number of a row.
    """
    text = query.get(name)
    try:
        return None if text is None else parse_row_number(text)
    except NotFoundError:
        message = f"{name} is {text!r:.50}; give the number of a row"
        raise InvalidInputError(message) from None


def time_param(query: Mapping[str, str], name: str, now: datetime) -> datetime | None:
    """Return a time that narrows; None where none was given.

    Args:
        query: What was sent.
        name: In it: a time as a form sends it, which is UTC; an ISO time with its offset; or how long ago, as ``2h``.
        now: From which ``2h`` counts; such a time is a full minute.

    Raises:
        RefusedError: If it is no time.
    """
    text = text_param(query, name)
    if text is None:
        return None
    spelled = text[:11].replace(" ", "T") + text[11:].replace(" ", "+")  # a plus that was not encoded is a space
    try:
        moment = datetime.fromisoformat(spelled)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        ago = parse_duration(text)
        if ago is not None:
            return (now - timedelta(seconds=ago)).replace(second=0, microsecond=0)
        message = f"{name} is {text!r}; write a time in UTC, such as 2026-11-15T10:00, or how long ago: 15m, 2h, 3d"
        raise InvalidInputError(message) from None


def duration_field(text: str, name: str) -> float:
    """Return the seconds of ``30m``, ``1.5h`` or ``7d``.

    Raises:
        RefusedError: If it is not a duration.
    """
    seconds = parse_duration(text)
    if seconds is None:
        message = f"{name} is {text[:50]!r}; {DURATION_FORMAT}"
        raise InvalidInputError(message)
    return seconds


def form_text(form: Mapping[str, list[str]], name: str, longest: int = 500) -> str:
    """Return a text that somebody typed into a form, without what surrounds it; empty where there is none.

    Raises:
        RefusedError: If it is too long.
    """
    text = "".join(form.get(name, [])[:1]).strip()
    if len(text) > longest:
        message = f"{name} has {len(text)} characters; {longest} are enough"
        raise InvalidInputError(message)
    return text


def selected_rows(form: Mapping[str, list[str]], what: str) -> list[int]:
    """Return the numbers of the rows that were chosen, each once, in their order.

    Args:
        form: What was sent; the rows are the values of ``number``.
        what: The rows are, for people.

    Raises:
        RefusedError: If there is none, if they are too many, or one is no number of a row.
    """
    texts = list(dict.fromkeys(form.get("number", [])))
    if not texts:
        message = f"no {what} was selected"
        raise InvalidInputError(message)
    if len(texts) > MAX_SELECTED:
        message = f"{len(texts)} {what}s are too many at a time; choose {MAX_SELECTED} at most, or use the command line"
        raise InvalidInputError(message)
    return [_selected_row(text, what) for text in texts]


def _selected_row(text: str, what: str) -> int:
    try:
        return parse_row_number(text)
    except NotFoundError:
        message = f"{text!r:.50} is no number of a {what}"
        raise InvalidInputError(message) from None


def return_path(form: Mapping[str, list[str]], path: str, names: Iterable[str], more: Mapping[str, str]) -> str:
    """Return the list that an action came from, with what narrowed it.

    Args:
        form: What was sent; ``back`` is the query of the list.
        path: Of the list; nothing else is ever gone to.
        names: What may narrow it.
        more: What else it is to show.
    """
    known = set(names)
    pairs = parse_qsl("".join(form.get("back", [])[:1])[:2000])
    query = urlencode({**{name: value for name, value in pairs if name in known}, **more})
    return f"{path}?{query}" if query else path


# Which dead letters are meant, as an address or a form says it.

DEAD_LETTER_PARAMS = ("category", "task", "group", "reason", "queue", "since", "until", "text")
"""What narrows, by the names that pages and the command line share."""


def dead_letter_filter(query: Mapping[str, str], now: datetime, limit: int | None = None) -> DeadLetterFilter:
    """Return what was asked for.

    Args:
        query: What was sent, by `NAMES` and ``before``.
        now: From which ``2h`` counts.
        limit: How many at most.

    Raises:
        RefusedError: If something in it cannot be meant.
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


# Pages of a list that is at hand as a whole: a page shows a part of it, and says how much more there is.

T = TypeVar("T")
_MAX_PAGE_DIGITS = 6


class PagePosition(NamedTuple):
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


def paginate(rows: Sequence[T], query: Mapping[str, str], name: str, size: int) -> tuple[Sequence[T], PagePosition]:
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
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_PAGE_DIGITS and int(text)):
        message = f"{name} is {text!r:.50}; give the number of a page"
        raise InvalidInputError(message)
    last = max(1, -(-len(rows) // size))
    number = min(int(text), last)
    shown = rows[(number - 1) * size : number * size]
    return shown, PagePosition(number, last, len(shown), len(rows), max(0, len(rows) - number * size))
