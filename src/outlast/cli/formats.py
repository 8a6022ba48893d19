"""Times, durations, numbers and rates: the types of options, and the text that commands print."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from outlast import clock
from outlast.units import DURATION_FORMAT, RATE_FORMAT, parse_duration, parse_rate

if TYPE_CHECKING:
    _FloatBase = click.ParamType[float]
    _IntegerBase = click.ParamType[int]
    _TimeBase = click.ParamType[datetime]
else:
    _FloatBase = _IntegerBase = _TimeBase = click.ParamType  # not generic before click 8.4


_SHOWN_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_MINUTE, _HOUR = 60, 3600


def _now() -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


class _DurationType(_FloatBase):
    """Seconds, or a number with a unit."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration; {DURATION_FORMAT}", param, ctx)
        return seconds


class _TimeType(_TimeBase):
    """An ISO time with its UTC offset."""

    name = "time"
    _expected = "give it with its UTC offset, such as 2026-11-15T10:00:00+00:00 or 2026-11-15T10:00Z"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return an aware datetime."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError:
            self.fail(f"{value!r} is not a time; {self._expected}", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no UTC offset; {self._expected}", param, ctx)
        return moment


def _is_iso(text: str) -> bool:
    """Return whether a text is an ISO time; ``20261115`` is a date, not a number of seconds."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


class _PastTimeType(_TimeType):
    """An ISO time with its UTC offset, or how long ago."""

    name = "time"
    _expected = "give how long ago, such as 15m, 2h or 3d, or a time such as 2026-11-15T10:00:00+00:00"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return an aware datetime."""
        seconds = None if _is_iso(str(value)) else parse_duration(str(value))
        return super().convert(value, param, ctx) if seconds is None else _now() - timedelta(seconds=seconds)


DURATION, TIME, PAST_TIME = _DurationType(), _TimeType(), _PastTimeType()
"""Types of options: seconds; a time; a time or how long ago."""


def relative_time(moment: datetime | None) -> str:
    """Return a time relative to now: ``5m ago``, ``in 2h``, ``now``; a dash for None."""
    if moment is None:
        return "-"
    seconds = (moment - _now()).total_seconds()
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


class _NumberType(_IntegerBase):
    """A whole number from 1; click's own range type would show the upper bound in every help text."""

    name = "number"

    def __init__(self, largest: int) -> None:
        self.largest = largest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value)
        number = int(text) if len(text) <= _MAX_NUMBER_DIGITS and text.isascii() and text.isdecimal() else 0
        if not 1 <= number <= self.largest:
            self.fail(f"{value!r} is not a valid number; give a whole number from 1 to {self.largest}", param, ctx)
        return number


ROW_NUMBER, ROW_LIMIT = _NumberType(2**63 - 1), _NumberType(2**31 - 1)
"""Types of options: the number of a row, such as a task; how many rows at most. Every database can hold them."""


class _RateType(_FloatBase):
    """A rate such as ``10/s``, ``30/min`` or ``100/h``."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return tasks per second."""
        rate = parse_rate(value)
        if rate is None:
            self.fail(f"{value!r} is not a rate; {RATE_FORMAT}", param, ctx)
        return rate


RATE = _RateType()
"""Type of an option: tasks per second."""
