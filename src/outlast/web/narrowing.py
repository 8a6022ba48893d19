"""What people sent to narrow a list or to choose rows, checked before a store sees it."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode

from outlast.units import DURATION_FORMAT, parse_duration
from outlast.web.routing import NotThereError, RefusedError, number

__all__ = [
    "MOST_CHOSEN",
    "before_of",
    "choice_of",
    "chosen_numbers",
    "length_of",
    "line_of",
    "moment_of",
    "text_of",
    "way_back",
]

MOST_CHOSEN = 500
"""Rows that one action takes."""
_LONGEST_TEXT = 200  # characters


def text_of(query: Mapping[str, str], name: str) -> str | None:
    """Return a text that narrows; None where none was given.

    Raises:
        RefusedError: If it is longer than any name is.
    """
    text = query.get(name, "").strip()
    if len(text) > _LONGEST_TEXT:
        message = f"{name} has {len(text)} characters; {_LONGEST_TEXT} are enough"
        raise RefusedError(message)
    return text or None


def choice_of(query: Mapping[str, str], name: str, choices: Iterable[str]) -> str | None:
    """Return a word that narrows; None where none was given.

    Raises:
        RefusedError: If it is none of the words; the message lists them.
    """
    text = text_of(query, name)
    words = {word.lower(): word for word in choices}
    if text is None or text.lower() in words:
        return None if text is None else words[text.lower()]
    message = f"{text!r} is no {name}; choose one of: {', '.join(words)}"
    raise RefusedError(message)


def before_of(query: Mapping[str, str], name: str = "before") -> int | None:
    """Return where a page begins: behind a row of this number; None for the first page.

    Args:
        query: What was sent.
        name: In it, of that number.

    Raises:
        RefusedError: If it is no number of a row.
    """
    text = query.get(name)
    try:
        return None if text is None else number(text)
    except NotThereError:
        message = f"{name} is {text!r:.50}; give the number of a row"
        raise RefusedError(message) from None


def moment_of(query: Mapping[str, str], name: str, now: datetime) -> datetime | None:
    """Return a time that narrows; None where none was given.

    Args:
        query: What was sent.
        name: In it: a time as a form sends it, which is UTC; an ISO time with its offset; or how long ago, as ``2h``.
        now: From which ``2h`` counts; such a time is a full minute.

    Raises:
        RefusedError: If it is no time.
    """
    text = text_of(query, name)
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
        raise RefusedError(message) from None


def length_of(text: str, name: str) -> float:
    """Return the seconds of ``30m``, ``1.5h`` or ``7d``.

    Raises:
        RefusedError: If it is not a duration.
    """
    seconds = parse_duration(text)
    if seconds is None:
        message = f"{name} is {text[:50]!r}; {DURATION_FORMAT}"
        raise RefusedError(message)
    return seconds


def line_of(form: Mapping[str, list[str]], name: str, longest: int = 500) -> str:
    """Return a text that somebody typed into a form, without what surrounds it; empty where there is none.

    Raises:
        RefusedError: If it is too long.
    """
    text = "".join(form.get(name, [])[:1]).strip()
    if len(text) > longest:
        message = f"{name} has {len(text)} characters; {longest} are enough"
        raise RefusedError(message)
    return text


def chosen_numbers(form: Mapping[str, list[str]], what: str) -> list[int]:
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
        raise RefusedError(message)
    if len(texts) > MOST_CHOSEN:
        message = f"{len(texts)} {what}s are too many at a time; choose {MOST_CHOSEN} at most, or use the command line"
        raise RefusedError(message)
    return [_chosen(text, what) for text in texts]


def _chosen(text: str, what: str) -> int:
    try:
        return number(text)
    except NotThereError:
        message = f"{text!r:.50} is no number of a {what}"
        raise RefusedError(message) from None


def way_back(form: Mapping[str, list[str]], path: str, names: Iterable[str], more: Mapping[str, str]) -> str:
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
