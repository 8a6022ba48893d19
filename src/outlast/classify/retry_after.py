"""Reads the wait that a server asks for: Retry-After and the variants of rate-limit headers.

A hint is a lower bound. It is rounded up, so that no client returns too early, and capped, so that a hostile or broken
server cannot block a client for a year; `RetryHint.capped` is true if the server asked for more.
"""

import math
import re

from outlast import clock
from outlast.failure import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from outlast.clock import WallClock


MAX_RETRY_AFTER_SECONDS = 3600
"""The longest wait a header can ask for, in seconds."""

_EPOCH_SECONDS_FROM = 1_000_000_000  # the year 2001; as a relative wait it would be 31 years
_EPOCH_MILLISECONDS_FROM = 100_000_000_000  # as seconds it would be the year 5138
_MAX_DIGITS = 18  # int() of more digits is slow or fails, and the cap applies anyway
_VALUE_LIMIT = 256

_DRAFT_NAMES = {"r": "remaining", "t": "reset", "remaining": "remaining", "reset": "reset"}
_DURATION = r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class RetryHint(Frozen):
    """A wait that the server asked for.

    Attributes:
        seconds: How long to wait, at most `MAX_RETRY_AFTER_SECONDS`.
        capped: Whether it asked for longer than that.
        header: Name of the header, in lowercase.
    """

    seconds: float
    capped: bool
    header: str

    def __init__(self, seconds: float, capped: bool, header: str) -> None:  # noqa: FBT001  # a field of a value
        self.__dict__.update(seconds=seconds, capped=capped, header=header)


def parse_retry_after(
    header_value: str | float | None, default: int = 60, *, date: str | None = None, now: "WallClock" = clock.wall_clock
) -> int:
    """Return the seconds in the value of a Retry-After header.

    Args:
        header_value: Seconds ("120", fractions round up) or an HTTP-date in any of its three forms; a date without a
            zone is UTC, a date in the past means 0.
        default: Returned for a missing or unreadable value.
        date: Value of the response's Date header. A date in `header_value` is compared with it, so that the wait is
            right even if the server's clock is wrong.
        now: The wall clock, used if `date` is missing.

    Returns:
        Whole seconds, at most `MAX_RETRY_AFTER_SECONDS`.
    """
    seconds = _seconds_or_date(header_value, date, now)
    return default if seconds is None else math.ceil(min(seconds, MAX_RETRY_AFTER_SECONDS))


def rate_limit_hint(
    headers: "Mapping[str, str]", *, limited: bool = True, now: "WallClock" = clock.wall_clock
) -> RetryHint | None:
    """Return the wait from the first header that has one.

    Retry-After comes first, then its millisecond forms, then the reset headers: RateLimit and RateLimit-Reset,
    X-RateLimit-Reset as epoch seconds, epoch milliseconds, relative seconds, a duration ("6m0s") or a date, and
    X-RateLimit-Reset-After. A reset counts only if the remaining allowance is 0.

    Args:
        headers: Response headers.
        limited: Whether the response itself says that a limit was hit, as 429 does; then a reset header counts also
            without a matching remaining header.
        now: The wall clock.

    Returns:
        The hint, or None if no header has one.
    """
    low = {name.lower(): value for name, value in headers.items()}
    date = low.get("date")
    seconds = _seconds_or_date(low.get("retry-after"), date, now)
    if seconds is not None:
        return _hint(math.ceil(seconds), "retry-after")
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = _number(low.get(name))
        if milliseconds is not None:
            return _hint(math.ceil(milliseconds) / 1000, name)
    resets = [
        (wait, name)
        for name, value in low.items()
        if (wait := _reset_seconds(name, value, low, limited=limited, date=date, now=now)) is not None
    ]
    return _hint(*max(resets)) if resets else None


def allowance_is_exhausted(headers: "Mapping[str, str]") -> bool:
    """Return whether a header says that the remaining allowance is 0."""
    if not headers:
        return False
    if any("remaining" in name and "limit" in name and _number(value) == 0 for name, value in headers.items()):
        return True
    return "ratelimit" in headers and _draft_items(headers["ratelimit"]).get("remaining") == 0


def _hint(seconds: float, header: str) -> RetryHint:
    return RetryHint(min(seconds, MAX_RETRY_AFTER_SECONDS), seconds > MAX_RETRY_AFTER_SECONDS, header)


def _number(value: object) -> float | None:
    """Return a plain non-negative decimal number, without sign, underscores or non-ASCII digits; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(min(value, 10**18)) if value >= 0 and value == value else None  # noqa: PLR0124  # not NaN
    if not isinstance(value, str):
        return None
    text = value.strip()
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdigit() and whole) or text.endswith("."):
        return None
    return float(text) if len(whole) <= _MAX_DIGITS else 1e18


def _seconds_or_date(value: object, date: str | None, now: "WallClock") -> float | None:
    number = _number(value)
    if number is not None or not isinstance(value, str):
        return number
    timestamp = _parse_time(value)
    if timestamp is None:
        return None
    reference = _parse_time(date) if date else None
    return max(0.0, timestamp - (now() if reference is None else reference))


def _parse_time(value: str) -> float | None:
    """Return an HTTP-date or ISO 8601 time as seconds since the epoch; without a zone it is UTC."""
    text = value.strip()
    if not text or len(text) > _VALUE_LIMIT or not text.isascii() or ":" not in text:
        return None
    try:
        from datetime import UTC, datetime  # noqa: PLC0415  # takes milliseconds to import, and dates are rare
        from email.utils import parsedate_to_datetime  # noqa: PLC0415  # as above

        parsed = datetime.fromisoformat(text) if text[0].isdigit() else parsedate_to_datetime(text)
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        return parsed.timestamp()
    except Exception:  # noqa: BLE001  # the standard parsers raise five kinds of error for bad dates, and imports can fail too
        return None


def _relative_seconds(value: str) -> float | None:
    """Return the seconds of a duration such as 1s, 6m0s or 120ms."""
    text = value.strip().lower()
    if not text or len(text) > _VALUE_LIMIT or re.sub(_DURATION, "", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_DURATION, text))


def _draft_items(value: str) -> dict[str, float]:
    """Return remaining and reset of the IETF drafts: ``limit=10, remaining=0, reset=30`` and ``"default";r=0;t=30``."""
    found: dict[str, float] = {}
    for policy in [value] if ";" not in value else value[:_VALUE_LIMIT].split(","):
        items: dict[str, float] = {}
        for part in re.split(r"[;,]", policy[:_VALUE_LIMIT]):
            key, _, text = part.strip().partition("=")
            number = _number(text)
            if number is not None and key in _DRAFT_NAMES:
                items.setdefault(_DRAFT_NAMES[key], number)
        exhausted, was_exhausted = items.get("remaining") == 0, found.get("remaining") == 0
        if not found or (exhausted, items.get("reset", 0.0)) > (was_exhausted, found.get("reset", 0.0)):
            found = items  # of several policies, the one that is exhausted for longest
    return found


def _reset_seconds(
    name: str, value: str, headers: "Mapping[str, str]", *, limited: bool, date: str | None, now: "WallClock"
) -> float | None:
    if name == "ratelimit":
        items = _draft_items(value)
        left = items.get("remaining")
        return items.get("reset") if left == 0 or (left is None and limited) else None
    if "reset" not in name or "limit" not in name or not isinstance(value, str):
        return None
    left = _number(headers.get(name.replace("-reset-after", "-remaining").replace("reset", "remaining")))
    if left not in {None, 0.0} or (left is None and not limited):
        return None
    number = _number(value)
    if number is None:
        relative = _relative_seconds(value)
        return relative if relative is not None else _seconds_or_date(value, date, now)
    if name.endswith("-ms") and number < _EPOCH_MILLISECONDS_FROM:
        return number / 1000
    if name.endswith("-after") or number < _EPOCH_SECONDS_FROM:
        return number
    timestamp = number / 1000 if number >= _EPOCH_MILLISECONDS_FROM else number
    reference = _parse_time(date) if date else None
    return max(0.0, math.ceil(timestamp - (now() if reference is None else reference)))
