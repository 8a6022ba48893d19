"""From what a page reads to JSON: plain values alone, and no number that a reader would round."""

import dataclasses
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any

__all__ = ["encoded", "plain"]

MOST_EXACT = 2**53 - 1
"""The largest whole number that every reader of JSON holds exactly; those beyond are told as text."""


def encoded(value: object) -> bytes:
    """Return something as JSON text.

    Raises:
        TypeError: If something in it has no form in JSON.
    """
    return json.dumps(plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def plain(value: object) -> Any:
    """Return something as texts, numbers, lists and objects.

    Rows become objects, times ISO 8601 in UTC, lengths of time seconds, enums their values. What begins with an
    underscore is for the template alone and is left out. Bytes have no place here.

    Raises:
        TypeError: If something in it has no form in JSON.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)  # a marked-up text too
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, datetime | date | timedelta):
        return _time(value)
    return _nested(value)


def _number(value: Any) -> float | str | None:
    if isinstance(value, int):
        return int(value) if -MOST_EXACT <= value <= MOST_EXACT else str(int(value))
    return value if math.isfinite(value) else None


def _time(value: date | timedelta) -> str | float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return value.isoformat()


def _nested(value: object) -> Any:
    if isinstance(value, Mapping):
        return {name: plain(each) for key, each in value.items() if not (name := _key(key)).startswith("_")}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(each) for name, each in zip(value._fields, value, strict=True)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, AbstractSet):
        return sorted((plain(each) for each in value), key=str)
    message = f"a {type(value).__name__} has no form in JSON"
    raise TypeError(message)


def _key(key: object) -> str:
    if isinstance(key, Enum):
        return _key(key.value)
    if isinstance(key, str):
        return key
    if type(key) is int:
        return str(key)
    message = f"a {type(key).__name__} cannot name anything in JSON"
    raise TypeError(message)
