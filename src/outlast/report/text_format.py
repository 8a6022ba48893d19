"""Numbers, times, categories and store locations as people read them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from outlast.failure import Category
from outlast.units import DISPLAY_UNITS, span


class CategoryLook(NamedTuple):
    """How a category is shown.

    Attributes:
        label: Its name in words.
        retryable: Whether a retry may help; drawn plain if so, hatched if not.
        meaning: What it says of the failure, in one line; empty for a category that this version does not know.
    """

    label: str
    retryable: bool
    meaning: str


_MEANINGS = {
    Category.NETWORK: "the server could not be reached, or the connection broke",
    Category.RATE_LIMIT: "the server asks for fewer requests",
    Category.API_TEMPORARY: "the server answered with a temporary error",
    Category.DATABASE_BUSY: "the database was busy, locked or restarting",
    Category.SYSTEM: "this machine ran short of something, or a process died",
    Category.ACCESS_DENIED: "the server denies access to this caller",
    Category.NOT_FOUND: "the requested thing does not exist",
    Category.INVALID_PARAMETERS: "the request is not valid",
    Category.AUTHENTICATION: "the credentials were not accepted",
    Category.QUOTA_EXHAUSTED: "a quota is used up; waiting for its renewal or paying helps",
    Category.CONFIGURATION: "something is configured wrongly on this side",
    Category.INTEGRITY: "the data would contradict itself",
    Category.DATA: "the data received does not have the expected form",
    Category.UNKNOWN: "nothing showed what it is",
}

_DETAIL_SECONDS = {"snooze", "seconds"}
_DETAIL_WORDS = {"True": "yes", "False": "no", "None": "none"}  # by text, because 1 equals True
CATEGORIES = tuple(str(category) for category in _MEANINGS)
"""All categories, in the order of lists and charts."""


def category_look(category: str) -> CategoryLook:
    """Return how a category is shown, also one that this version does not know."""
    try:
        known = Category(category)
    except ValueError:
        return CategoryLook(category.replace("_", " ") or "no category", retryable=False, meaning="")
    return CategoryLook(known.value.replace("_", " "), known.retryable, _MEANINGS[known])


def count(number: float) -> str:
    """Return a number with thousands separators."""
    return f"{number:,.0f}"


def shortened(text: str, limit: int) -> str:
    """Return a text with at most this many characters; an ellipsis marks that its end was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and what it counts: ``1 worker``, ``2 workers``, ``2 retries``."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def group_title(error_type: str, tasks: Sequence[str]) -> str:
    """Return the title of a group of failures: ``TimeoutError in scrape``, ``TimeoutError in 2 tasks``."""
    return f"{error_type or 'Failure'} in {tasks[0] if len(tasks) == 1 else counted(len(tasks), 'task')}"


def detail_text(detail: Mapping[str, Any]) -> str:
    """Return the details of an audit entry in one line."""
    return ", ".join(f"{name.replace('_', ' ')} {_detail_value(name, value)}" for name, value in detail.items())


def _detail_value(name: str, value: Any) -> str:
    if name in _DETAIL_SECONDS:
        return span(value)
    if isinstance(value, list):
        return " ".join(_detail_value("", each) for each in value)
    return "…" if isinstance(value, dict) else _DETAIL_WORDS.get(str(value), str(value))


def ago(at: datetime, now: datetime) -> str:
    """Return how far a time is from now: ``just now``, ``now``, ``4 min ago``, ``in 2 h``."""
    seconds = (now - at).total_seconds()
    if abs(seconds) < 1.5:  # noqa: PLR2004  # too short to matter to a reader
        return "just now" if seconds >= 0 else "now"
    whole = round(abs(seconds))
    unit, size = next(((unit, size) for unit, size in DISPLAY_UNITS if whole >= size), ("s", 1))
    return f"{whole // size} {unit} ago" if seconds > 0 else f"in {whole // size} {unit}"
