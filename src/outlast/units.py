"""Durations and rates as people write them: ``90s``, ``1.5h``, ``30/min``, ``1000/d``.

Every place that accepts one as text parses it here, so that a text means the same everywhere.
"""

import re

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604_800.0}
_WORDS = {"s": "second", "m": "minute", "h": "hour", "d": "day"}
_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_UNIT = r"(?:(s)(?:ec|econd)?|(m)(?:in|inute)?|(h)(?:our)?|(d)(?:ay)?|(w)(?:eek)?)"
_DURATION = re.compile(rf"{_NUMBER}\s*{_UNIT}?")
_RATE = re.compile(rf"{_NUMBER}\s*(?:/\s*(?!w){_UNIT})?")
DISPLAY_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
"""The units in which durations are shown, and their seconds."""
_DECIMALS_BELOW = 10.0  # seconds
_MS_BELOW = 0.1  # seconds
_LONGEST = 100 * 366 * 86400.0  # seconds
_SLOWEST, _FASTEST = 1e-6, 1e5  # per second

DURATION_FORMAT = "give seconds, or a number with a unit, such as 90s, 15m, 2h, 3d or 1w"
"""What a duration can be; the end of an error message."""
RATE_FORMAT = (
    "give a number per second, or a rate such as 10/s, 30/min, 5000/h or 1000/d, "
    f"from {_SLOWEST:f} (one in twelve days) to {_FASTEST:.0f} per second"
)
"""What a rate can be; the end of an error message."""


def parse_duration(text: str) -> float | None:
    """Return a duration in seconds; None if the text is not one, or is longer than a hundred years.

    Args:
        text: A number with a unit (``"90s"``, ``"10m"``, ``"1.5h"``), or seconds (``"90"``).
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        return None
    seconds = float(found[1]) * _unit_seconds(found)
    return seconds if seconds <= _LONGEST else None


def parse_rate(value: object) -> float | None:
    """Return a rate per second; None if the value is not a rate, or is too slow or too fast for a clock to keep.

    Args:
        value: A number per time (``"30/min"``, ``"1000/d"``), or a number per second (``"5"``, ``5``).
    """
    rate: float | None = None
    if isinstance(value, str):
        if found := _RATE.fullmatch(value.strip().lower()):
            rate = float(found[1]) / _unit_seconds(found)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        rate = value
    return float(rate) if rate is not None and _SLOWEST <= rate <= _FASTEST else None


def rate_text(rate: float) -> str:
    """Return a rate per second as people write it, in the shortest unit in which it is 1 or more: ``30/m``."""
    unit = _shortest_unit(rate)
    return f"{rate * _SECONDS[unit]:g}/{unit}"


def limit_text(rate: float | None, burst: int) -> str | None:
    """Return the rate of a limit, with its burst if that is more than one; None for None."""
    return None if rate is None else f"{rate_text(rate)}{f', burst {burst}' if burst > 1 else ''}"


def rate_words(rate: float) -> str:
    """Return a rate per second in words, in the shortest unit in which it is 1 or more: ``30 per minute``."""
    unit = _shortest_unit(rate)
    number = f"{rate:g}" if unit == "s" else f"{rate * _SECONDS[unit]:.3g}"
    return f"{number} per {_WORDS[unit]}"


def format_seconds(seconds: float) -> str:
    """Return a duration with three significant digits, never with an exponent: ``84 ms``, ``1.5 s``, ``240 s``."""
    if 0 < seconds < _MS_BELOW:
        return f"{round(seconds * 1000, 3):.3g} ms"
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"  # noqa: PLR2004  # three digits are enough


def span(seconds: float) -> str:
    """Return a duration in at most two units: ``84 ms``, ``0.4 s``, ``12 s``, ``3 min``, ``2 h 5 min``, ``4 d``."""
    if seconds < _MS_BELOW:
        return format_seconds(max(seconds, 0.0))
    if seconds < _DECIMALS_BELOW:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    for place, (unit, size) in enumerate(DISPLAY_UNITS):
        if whole >= size:
            many, rest = divmod(whole, size)
            below, small = DISPLAY_UNITS[place + 1] if place + 1 < len(DISPLAY_UNITS) else ("", 0)
            second = rest // small if small and many < _DECIMALS_BELOW else 0
            return f"{many} {unit} {second} {below}" if second else f"{many} {unit}"
    return f"{whole} s"


def _unit_seconds(found: re.Match[str]) -> float:
    return _SECONDS[next(filter(None, found.groups()[1:]), "s")]


def _shortest_unit(rate: float) -> str:
    return next((unit for unit in _WORDS if rate * _SECONDS[unit] >= 1), "d")
