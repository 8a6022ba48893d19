"""Reads the wait that a server asks for: Retry-After, the variants of rate-limit headers, attributes and words.

`RateLimit` is read as a structured field (RFC 9651). A malformed one is ignored as a whole, as the RFC requires; so is
one with an inner list, or one that is longer than `HEADER_LIMIT`.

A hint is a lower bound. It is rounded up, so that no client returns too early, and capped, so that a hostile or broken
server cannot block a client for a year; `RetryHint.capped` is true if the server asked for more.
"""

import math
import re

from outlast import clock
from outlast.classify.safe_access import HEADER_LIMIT, TEXT_LIMIT, safe_getattr, text_of
from outlast.failure import Frozen
from outlast.patterns import compiled, has_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from outlast.clock import WallClock
    from outlast.failure import Evidence


MAX_RETRY_AFTER_SECONDS = 3600
"""The longest wait a header can ask for, in seconds."""

_EPOCH_SECONDS_FROM = 1_000_000_000  # the year 2001; as a relative wait it would be 31 years
_EPOCH_MILLISECONDS_FROM = 100_000_000_000  # as seconds it would be the year 5138
_MAX_DIGITS = 18  # int() of more digits is slow or fails, and the cap applies anyway
_VALUE_LIMIT = 256  # of a date or a duration
_LONGEST_WAIT = 1e9  # seconds; a larger number is a timestamp, or nonsense
_LEAP_SECOND = ":59:60"

_DRAFT_NAMES = {"r": "remaining", "t": "reset", "remaining": "remaining", "reset": "reset"}
_DURATION = (
    r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s?"
    r"(ms|milli(?:second)?s?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

# Structured fields: a member is an item with parameters; in a dictionary it has a name.
_KEY = r"[a-z*][a-z0-9_.*-]*"
_ITEM = (
    r"-?[0-9]{1,12}\.[0-9]{1,3}|-?[0-9]{1,15}|\"(?:[ !#-\[\]-~]|\\[\"\\])*\"|[A-Za-z*][\w!#$%&'*+.^`|~:/-]*|"
    r":[A-Za-z0-9+/=]*:|\?[01]|@-?[0-9]{1,15}|%\"[ !#-~]*\""
)
_MEMBER = rf"(?:({_KEY})=)?({_ITEM})((?:; *{_KEY}(?:=(?:{_ITEM}))?)*)[ \t]*(?:,[ \t]*(?=[^ \t])|\Z)"
_PARAMETER = rf"; *({_KEY})(?:=({_ITEM}))?"

WAIT_ATTRIBUTES = {
    "retry_after": 1.0,
    "retry_after_s": 1.0,
    "retry_after_secs": 1.0,
    "retry_after_seconds": 1.0,
    "retry_after_ms": 0.001,
    "retry_in": 1.0,
    "retry_delay": 1.0,
    "backoff": 1.0,
}
"""Attributes of errors that say how long to wait, and the seconds that 1 means."""

# What must not follow a number: the rest of a larger one or of an address, the end of a range, a unit in brackets.
_MORE = r"(?![\w.:/-]|,[0-9]| (?:to|or) | ?\()"
# Time zones other than UTC, and the halves of a day: such a time is ignored, since as UTC it may be hours early.
_ZONE_NAMES = (
    r"(?! ?(?:[ap]\.?m\b|[acehmpw][sd]?t\b|(?:ak|ce|ee|we|ae|nz|j|i|b|k|sg|hk)[sd]?t\b|msk\b|"
    r"(?:pacific|eastern|central|mountain|local)\b))"
)
_SPAN = rf"(?:about |around |approximately |roughly |at least |another |~ ?)?((?:{_DURATION}(?:,? and |, | )?){{1,4}})"
WAIT_PATTERNS: dict[str, str] = {
    # {"retry_after": 64.57}, 'Retry-After': '30', retry_after_ms=500, "retryDelay": "34s"
    "field": r"\bretry[ _-]?(?:after|in|delay)[_-]?(?P<unit>ms|millis|milliseconds|s|secs|seconds)?"
    rf"['\"]?\s?[:=]\s?['\"]?(?:{_DURATION}|(?P<number>[0-9]{{1,15}}(?:\.[0-9]{{1,9}})?){_MORE})",
    # {"backoff": 10}; without quotes it may be a setting
    "backoff": rf"['\"]backoff['\"]: ?(?P<number>[0-9]{{1,9}}(?:\.[0-9]{{1,9}})?){_MORE}",
    # try again in 46.72s, retry your request after 26 seconds, available in 56 seconds, resets in 1h2m
    "in": r"(?<!not )(?<!never )(?<!on )(?<!to )(?<!connection )\b(?:re-?try|try(?: again)?|available|resets?)"
    rf"(?: (?:the|your|this) (?:request|operation|call))?(?: again)? (?:in|after) {_SPAN}",
    # please wait 30 seconds, a wait of 37 seconds is required, wait 5 minutes before the next request
    "wait": rf"\b(?:please|must|need to|have to|should) wait (?:for )?{_SPAN}|\bwait (?:of |for )?{_SPAN}"
    r"\s?(?:before|and (?:re)?try|then|between|is required)",
    # retry after 26
    "bare": r"(?<!not )(?<!never )(?<!on )\bretry[ -]after (?P<number>[0-9]{1,9}(?:\.[0-9]{1,9})?)"
    r"(?=[.,;)]?(?:\s|\Z)(?! ?[a-z]))",
    # try again at 2026-12-01T00:00:00Z, you will regain access on 2026-12-01 at 00:00 UTC
    "date": r"\b(?:again|re-?try|regain access|resets?|renews?|available)\b[a-z ]{0,20} (?:at|on|after|until) "
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:(?:[t ]| at )(?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
    rf"(?![0-9:]) ?(?P<zone>[+-][0-9]{{2}}:?[0-9]{{2}})?|(?!(?:[t ]| at )?[0-9])){_ZONE_NAMES}",
}
"""Regular expressions for the wait in a lowercase text, the most exact first. A time without a zone is UTC."""

_WORDS_OF_WAITS = "retry again wait available reset renew backoff access"
_LIMIT_AND_REQUEST = (
    r"\blimit:? ([0-9][0-9,]{0,15})(?: ?/ ?[a-z]{1,6})?,? (?:used:? [0-9][0-9,]{0,15},? )?"
    r"requested:? ([0-9][0-9,]{0,15})\b"
)


class RetryHint(Frozen):
    """A wait that the server asked for.

    Attributes:
        seconds: How long to wait, at most `MAX_RETRY_AFTER_SECONDS`.
        capped: Whether it asked for longer than that.
        header: Name of the header, in lowercase; ``text`` for a wait in the words of a message or body.
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

    Retry-After comes first, then its millisecond forms, Backoff, and the reset headers: RateLimit and RateLimit-Reset,
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
    backoff = _number(low.get("backoff"))
    if backoff is not None:
        return _hint(backoff, "backoff")
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


def stated_retry(headers: "Mapping[str, str]") -> bool | None:
    """Return whether a header such as X-Should-Retry says that a retry helps; None without such a header."""
    for name, value in headers.items():
        low = value.lower() if name.endswith("should-retry") and isinstance(value, str) else ""
        if low in {"true", "false"}:
            return low == "true"
    return None


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
    leap = _LEAP_SECOND in text  # legal, but the standard library has no such second
    if leap:
        text = text.replace(_LEAP_SECOND, ":59:59")
    try:
        from datetime import UTC, datetime  # noqa: PLC0415  # takes milliseconds to import, and dates are rare
        from email.utils import parsedate_to_datetime  # noqa: PLC0415  # as above

        parsed = datetime.fromisoformat(text) if text[0].isdigit() else parsedate_to_datetime(text)
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        return parsed.timestamp() + leap
    except Exception:  # noqa: BLE001  # the standard parsers raise five kinds of error for bad dates, and imports can fail too
        return None


def _relative_seconds(value: str) -> float | None:
    """Return the seconds of a duration such as 1s, 6m0s, 120ms or 2 minutes and 5 seconds."""
    text = value.strip().lower()
    if not text or len(text) > _VALUE_LIMIT or re.sub(rf"{_DURATION}|,? and |, | ", "", text):
        return None
    return sum(float(number) * _unit_seconds(unit) for number, unit in re.findall(_DURATION, text))


def _unit_seconds(unit: str) -> float:
    """Return the seconds of a unit: ms, seconds, min."""
    return 0.001 if unit.startswith(("ms", "milli")) else _UNITS[unit[0]]


def _policies(value: str) -> list[dict[str, float]]:
    """Return remaining and reset of each policy in a `RateLimit` field; empty if it is malformed.

    The forms of the IETF drafts are ``limit=10, remaining=0, reset=30`` and ``"default";r=0;t=30``. Of a repeated name
    the last value counts.
    """
    text = value.strip(" \t")
    if not text or len(text) > HEADER_LIMIT:
        return []
    whole: dict[str, float] = {}
    policies, position = [whole], 0
    while position < len(text):
        member = re.compile(_MEMBER, re.ASCII).match(text, position)
        if member is None:
            return []
        position = member.end()
        parameters: dict[str, float] = {}
        _add_draft_item(whole, member[1], member[2])
        for key, item in re.findall(_PARAMETER, member[3], re.ASCII):
            _add_draft_item(parameters, key, item)
        policies.append(parameters)
    return policies


def _add_draft_item(items: dict[str, float], key: str | None, item: str) -> None:
    name = _DRAFT_NAMES.get(key or "")
    if name is not None:
        items.pop(name, None)
        number = _number(item.removeprefix("-"))
        if number is not None and (number == 0 or item[0] != "-"):  # -0 is 0
            items[name] = number


def _draft_items(value: str) -> dict[str, float]:
    """Return remaining and reset of the policy that is exhausted for longest."""
    return max(_policies(value), key=lambda items: (items.get("remaining") == 0, items.get("reset", 0.0)), default={})


def wait_in_attributes(error: object) -> float | None:
    """Return the seconds that an attribute of an error asks to wait: a number, a timedelta or a text; else None."""
    for name, unit in WAIT_ATTRIBUTES.items():
        seconds = wait_seconds(safe_getattr(error, name), unit)
        if seconds is not None:
            return seconds
    return None


def wait_seconds(value: object, unit: float = 1.0) -> float | None:
    """Return the seconds of a number, a timedelta, a datetime, or a text like ``30``, ``1m30s`` or a date; else None.

    Args:
        value: Any object.
        unit: The seconds that a bare number counts as 1.
    """
    total = safe_getattr(value, "days"), safe_getattr(value, "seconds"), safe_getattr(value, "microseconds")
    if all(type(part) is int for part in total):  # a timedelta, recognised by its parts
        days, seconds, microseconds = total
        value, unit = days * 86400 + seconds + microseconds / 1e6, 1.0  # type: ignore[operator]  # integers, as checked above
    elif isinstance(value, bytes):
        value = value[:_VALUE_LIMIT].decode("ascii", "replace")
    elif (type(value).__module__, type(value).__name__) == ("datetime", "datetime"):
        value = text_of(value)
    number = _number(value)
    if number is not None:
        return number * unit if number < _LONGEST_WAIT else None
    if not isinstance(value, str):
        return None
    found = _seconds_or_date(value, None, clock.wall_clock)
    found = _relative_seconds(value) if found is None else found
    return found and min(found, _LONGEST_WAIT)


def hint_in_text(text: str, *, now: "WallClock" = clock.wall_clock) -> RetryHint | None:
    """Return the wait that the words of a message or a body ask for, or None.

    A number without a unit counts as seconds only after ``retry after`` or in a field such as ``"retry_after": 3``.
    Words without a number ("in a few minutes") are ignored.
    """
    text = text[:TEXT_LIMIT].lower()
    if not has_word(text, _WORDS_OF_WAITS) or not has_word(text, "0 1 2 3 4 5 6 7 8 9"):
        return None
    for pattern in WAIT_PATTERNS.values():
        match = compiled(pattern, re.ASCII).search(text)
        if match is None:
            continue
        groups = match.groupdict()
        if groups.get("date"):
            zone = groups["zone"] or "+00:00"
            timestamp = _parse_time(f"{groups['date']}T{groups['time'] or '00:00'}{zone}")
            if timestamp is None:
                continue
            seconds = max(0.0, timestamp - now())
        elif groups.get("number"):
            seconds = float(groups["number"]) * _unit_seconds(groups.get("unit") or "s")
        else:
            seconds = sum(float(number) * _unit_seconds(unit) for number, unit in re.findall(_DURATION, match[0]))
        return _hint(math.ceil(seconds * 1000) / 1000, "text")
    return None


def words_of(subject: object, evidence: "Evidence") -> str:
    """Return the message of an error or of evidence, and the body; each is read to half of the limit or more."""
    message = evidence.message or (text_of(subject) if isinstance(subject, BaseException) else "")
    body = "" if message.startswith(evidence.body) else evidence.body  # the same words are not read twice
    return f"{message[: TEXT_LIMIT // 2]} {body}"


def excess_in_text(text: str) -> str | None:
    """Return the words that say that a request is larger than the whole limit: ``Limit 9000, Requested 16008``."""
    text = text[:TEXT_LIMIT]
    match = re.search(_LIMIT_AND_REQUEST, text, re.ASCII | re.IGNORECASE) if "equested" in text else None
    if match is None:
        return None
    limit, requested = (int(number.replace(",", "")) for number in match.groups())
    return match[0] if requested > limit else None


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
