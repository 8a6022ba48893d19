"""Single values in JSON: what goes as it is, what has a text form, and what is refused.

What a value holds never appears in a message: payloads may hold secrets.
"""

import base64
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from enum import Enum

    Change = Callable[[Any], Any]

__all__ = ["ATOMS", "SIMPLE", "Conversion", "Misfit", "as_it_is", "by_text", "enum_conversion", "native", "unfit"]

ATOMS: frozenset[type] = frozenset({str, int, float, bool, type(None)})
"""The types whose values JSON has as they are."""
_MICROSECOND = timedelta(microseconds=1)
_SECONDS = re.compile(r"(-?)(\d{1,14})\.(\d{6})", re.ASCII)


class Misfit(Exception):  # noqa: N818  # never leaves the queue: a PayloadError tells it
    """A value and a hint that do not go together.

    Attributes:
        path: The way from the parameter to the value, such as ``.items[3]``; it grows as the error travels up.
    """

    path = ""


class Conversion(NamedTuple):
    """The way of one type into JSON and back.

    Attributes:
        dump: Makes a JSON value; raises `Misfit`.
        load: Makes the value again; raises `Misfit`, or whatever a class of the user's raises.
        label: Name of the type.
        kinds: Classes of its values, where JSON has them as they are; empty where something is to be done.
    """

    dump: "Change"
    load: "Change"
    label: str
    kinds: tuple[type, ...] = ()


def unfit(value: object, label: str) -> Misfit:
    """Return the error about a value of another type."""
    return Misfit(f"{type(value).__qualname__} where {label} is expected")


def native(value: Any) -> Any:
    """Return a value as it is, if JSON has one like it at every depth.

    Tuples and keys that are no text are refused, though the standard encoder takes them: they would come back as
    something else.
    """
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                message = f"{type(key).__qualname__} as a key, where JSON has text; annotate it, as in dict[int, str]"
                raise Misfit(message)
        _all_native(value.items())
    elif isinstance(value, list):
        _all_native(enumerate(value))
    elif not isinstance(value, str | int | float | None):
        message = (
            f"{type(value).__qualname__} is no JSON type, and no hint says how to make it one; annotate it with a type "
            "that payloads carry: a dataclass, tuple, set, datetime, Decimal, UUID, bytes, Path, Enum, …"
        )
        raise Misfit(message)
    return value


def _all_native(parts: "Iterable[tuple[str | int, Any]]") -> None:
    for place, each in parts:
        if type(each) not in ATOMS:
            try:
                native(each)
            except Misfit as misfit:
                misfit.path = f"[{place!r:.40}]{misfit.path}"
                raise


def as_it_is(label: str, kinds: tuple[type, ...]) -> Conversion:
    """Return the conversion of types that JSON has."""
    return Conversion(native, _same, label, kinds)


def _same(given: Any) -> Any:
    return given


def by_text(label: str, kind: type, dump: "Change", parse: "Change") -> Conversion:
    """Return the conversion of a type that has a text form."""

    def to_text(value: Any) -> Any:
        if not isinstance(value, kind):
            raise unfit(value, label)
        return dump(value)

    def from_text(given: Any) -> Any:
        if not isinstance(given, str):
            raise unfit(given, f"the text of a {label}")
        try:
            return parse(given)
        except (ValueError, ArithmeticError) as error:
            message = f"the text is no {label}"
            raise Misfit(message) from error

    return Conversion(to_text, from_text, label)


def _aware(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is None:
        message = "a datetime without a time zone is another moment elsewhere; give it one, as datetime.now(UTC) does"
        raise Misfit(message)
    if offset.microseconds:  # Python writes such an offset, and reads it back as another
        try:
            return value.astimezone(UTC).isoformat()
        except OverflowError:
            message = "a datetime in the first or last hours that there are, with such an offset, has no form in UTC"
            raise Misfit(message) from None
    return value.isoformat()


def _parse_aware(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    _aware(value)
    return value


def _day(value: date) -> str:
    if isinstance(value, datetime):
        raise unfit(value, "date")
    return value.isoformat()


def _time(value: time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        message = "the offset of a time in this zone depends on the day; use a datetime"
        raise Misfit(message)
    return value.isoformat()


def _seconds(value: timedelta) -> str:
    count = value // _MICROSECOND
    whole, part = divmod(abs(count), 1_000_000)
    return f"{'-' if count < 0 else ''}{whole}.{part:06}"


def _parse_seconds(text: str) -> timedelta:
    found = _SECONDS.fullmatch(text)
    if not found:
        message = "not of the form seconds.microseconds"
        raise ValueError(message)
    sign, whole, part = found.groups()
    return timedelta(microseconds=int(f"{sign}{whole}{part}"))  # whole numbers: exact at any length


def _finite(value: Decimal) -> str:
    if not value.is_finite():
        message = f"a Decimal that is no number ({value})"
        raise Misfit(message)
    return str(value)


def _parse_decimal(text: str) -> Decimal:
    value = Decimal(text)
    _finite(value)
    return value


SIMPLE: dict[Any, Conversion] = {
    datetime: by_text("datetime", datetime, _aware, _parse_aware),
    date: by_text("date", date, _day, date.fromisoformat),
    time: by_text("time", time, _time, time.fromisoformat),
    timedelta: by_text("timedelta", timedelta, _seconds, _parse_seconds),
    Decimal: by_text("Decimal", Decimal, _finite, _parse_decimal),
    UUID: by_text("UUID", UUID, str, UUID),
    bytes: by_text(
        "bytes",
        bytes,
        lambda value: base64.b64encode(value).decode("ascii"),
        lambda text: base64.b64decode(text, validate=True),
    ),
}
"""The conversions of classes that are known by name."""


def enum_conversion(kind: "type[Enum]") -> Conversion:
    """Return the conversion of an Enum: by value where all values are text or whole numbers, else by name."""
    by_value = all(type(member.value) in {str, int} for member in kind)

    def dump(value: Any) -> Any:
        if not isinstance(value, kind):
            raise unfit(value, kind.__qualname__)
        return value.value if by_value else value.name

    def load(given: Any) -> Any:
        try:
            return kind(given) if by_value else kind[given]
        except (ValueError, KeyError) as error:
            message = f"no member of {kind.__qualname__}"
            raise Misfit(message) from error

    return Conversion(dump, load, kind.__qualname__)
