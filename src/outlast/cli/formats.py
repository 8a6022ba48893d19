"""Times as people type and read them: ``2h`` ago, ``3d``, an ISO time; and back as ``5m ago``."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from outlast import clock
from outlast.units import DURATION_FORMAT, RATE_FORMAT, parse_duration, parse_rate

if TYPE_CHECKING:
    _DurationBase = click.ParamType[float]
    _TimeBase = click.ParamType[datetime]
else:
    _DurationBase = _TimeBase = click.ParamType  # not generic before click 8.4


_SHOWN_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_MINUTE, _HOUR = 60, 3600


def _now() -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


class _DurationType(_DurationBase):
    """Seconds, or a number with a unit."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration; {DURATION_FORMAT}", param, ctx)
        return seconds


class _TimeType(_TimeBase):
    """An ISO time with its offset."""

    name = "time"
    _choices = "write it with its offset, such as 2026-11-15T10:00:00+00:00 or 2026-11-15T10:00Z"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return an aware datetime."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError:
            self.fail(f"{value!r} is no time; {self._choices}", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} is another moment in every time zone; {self._choices}", param, ctx)
        return moment


def _is_iso(text: str) -> bool:
    """Tell whether a text is an ISO time; ``20261115`` is one, and not that many seconds."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


class _PastTimeType(_TimeType):
    """An ISO time with its offset, or how long ago."""

    name = "time"
    _choices = "write how long ago, such as 15m, 2h or 3d, or 2026-11-15T10:00:00+00:00"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return an aware datetime."""
        seconds = None if _is_iso(str(value)) else parse_duration(str(value))
        return super().convert(value, param, ctx) if seconds is None else _now() - timedelta(seconds=seconds)


DURATION, TIME, PAST_TIME = _DurationType(), _TimeType(), _PastTimeType()
"""The types of options: seconds; a time; a time or how long ago."""


def relative_time(moment: datetime | None) -> str:
    """Return a time as seen from now: ``5m ago``, ``in 2h``, ``now``; a dash for none."""
    if moment is None:
        return "-"
    seconds = (moment - _now()).total_seconds()
    if abs(seconds) < 1:
        return "now"
    unit, size = next(each for each in _SHOWN_UNITS if round(abs(seconds)) >= each[1])
    text = f"{abs(seconds) / size:.0f}{unit}"
    return f"in {text}" if seconds > 0 else f"{text} ago"


def exact_time(moment: datetime | None) -> str | None:
    """Return a time to the second, and as seen from now; None for none."""
    return None if moment is None else f"{moment.isoformat(timespec='seconds')} ({relative_time(moment)})"


def duration_text(seconds: float | None) -> str | None:
    """Return how long something took: ``0.4s``, ``12s``, ``3m20s``, ``1h05m``; None if nobody knows."""
    if seconds is None:
        return None
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{seconds:.1f}s" if seconds < 10 else f"{whole}s"  # noqa: PLR2004  # two digits do
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"


# Numbers as options and arguments take them: what every database can hold.

if TYPE_CHECKING:
    _NumberBase = click.ParamType[int]
else:
    _NumberBase = click.ParamType  # not generic before click 8.4


_MAX_NUMBER_DIGITS = 20  # digits


class _NumberType(_NumberBase):
    """A whole number from 1 on; click's own range would put the largest one into every help."""

    name = "number"

    def __init__(self, largest: int) -> None:
        self.largest = largest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value)
        number = int(text) if len(text) <= _MAX_NUMBER_DIGITS and text.isascii() and text.isdecimal() else 0
        if not 1 <= number <= self.largest:
            self.fail(f"{value!r} is none; give a whole number from 1 to {self.largest}", param, ctx)
        return number


ROW_NUMBER, ROW_LIMIT = _NumberType(2**63 - 1), _NumberType(2**31 - 1)
"""The types of options: the number of a task or a dead letter; how many at most."""


# Rates as people type them: ``10/s``, ``30/min``, ``100/h``.

if TYPE_CHECKING:
    _RateBase = click.ParamType[float]
else:
    _RateBase = click.ParamType  # not generic before click 8.4


class _RateType(_RateBase):
    """Tasks per second."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return tasks per second."""
        rate = parse_rate(value)
        if rate is None:
            self.fail(f"{value!r} is not a rate; {RATE_FORMAT}", param, ctx)
        return rate


RATE = _RateType()
"""The type of an option: tasks per second."""
