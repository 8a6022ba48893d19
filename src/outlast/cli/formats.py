"""Times, durations, numbers and rates: the types of options, and the text that commands print."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from outlast import clock
from outlast.units import DURATION_FORMAT, RATE_FORMAT, parse_duration, parse_rate

_SHOWN_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_MINUTE, _HOUR = 60, 3600


def now() -> datetime:
    """Return the current time."""
    return datetime.fromtimestamp(clock.now(), UTC)


class ParsedType(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """The type of an option that a function parses.

    Args:
        name: Its name in help texts.
        parse: Returns the value of a text; None if the text is not valid.
        problem: The end of the error message for a text that is not valid.
    """

    def __init__(self, name: str, parse: Callable[[str], object], problem: str) -> None:
        self.name, self._parse, self._problem = name, parse, problem

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the parsed value."""
        parsed = self._parse(str(value))
        if parsed is None:
            self.fail(f"{value!r} {self._problem}", param, ctx)
        return parsed


def _parse_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


TIME = ParsedType(
    "time",
    _parse_time,
    "is not a time, or has no UTC offset; give it as 2026-11-15T10:00:00+00:00 or 2026-11-15T10:00Z",
)
"""Type of an option: a time."""
DURATION = ParsedType("span", parse_duration, f"is not a duration; {DURATION_FORMAT}")
"""Type of an option: seconds."""
RATE = ParsedType("rate", parse_rate, f"is not a rate; {RATE_FORMAT}")
"""Type of an option: tasks per second."""


def relative_time(moment: datetime | None) -> str:
    """Return a time relative to now: ``5m ago``, ``in 2h``, ``now``; a dash for None."""
    if moment is None:
        return "-"
    seconds = (moment - now()).total_seconds()
    if abs(seconds) < 1:
        return "now"
    unit, size = next(each for each in _SHOWN_UNITS if round(abs(seconds)) >= each[1])
    text = f"{abs(seconds) / size:.0f}{unit}"
    return f"in {text}" if seconds > 0 else f"{text} ago"


def exact_time(moment: datetime | None) -> str | None:
    """Return a time in seconds precision and relative to now; None for None."""
    return None if moment is None else f"{moment.isoformat(timespec='seconds')} ({relative_time(moment)})"


def duration_text(seconds: float | None) -> str | None:
    """Return a duration as ``0.4s``, ``12s``, ``3m20s`` or ``1h05m``; None if it is unknown."""
    if seconds is None:
        return None
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{seconds:.1f}s" if seconds < 10 else f"{whole}s"  # noqa: PLR2004  # two digits are enough
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"


_MAX_NUMBER_DIGITS = 20


def _number_type(largest: int) -> ParsedType:
    """Return a type for whole numbers from 1; click's own would show the upper bound in every help text."""

    def parse(text: str) -> int | None:
        number = int(text) if len(text) <= _MAX_NUMBER_DIGITS and text.isascii() and text.isdecimal() else 0
        return number if 1 <= number <= largest else None

    return ParsedType("number", parse, f"is not a valid number; give a whole number from 1 to {largest}")


ROW_NUMBER, ROW_LIMIT = _number_type(2**63 - 1), _number_type(2**31 - 1)
"""Types of options: the number of a row, such as a task; how many rows at most. Every database can hold them."""


def parse_json_option(text: str, option: str) -> Any:
    """Return the value of an option that takes JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not valid JSON: {error}", param_hint=option) from None


def parse_json_or_text(text: str, *, is_text: bool) -> Any:
    """Return a JSON value; the text itself if it is not valid JSON, or if a text is expected and it is none."""
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if is_text and not isinstance(value, str) else value
