"""One text for one value: canonical JSON, and the hash by which a record is known."""

import hashlib
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from outlast.errors import PayloadError

__all__ = ["canonical_json", "content_hash"]


def canonical_json(value: Any) -> bytes:
    """Return a value as JSON that is the same for equal values: keys sorted, no spaces, UTF-8.

    A date is written in ISO 8601, a datetime so in UTC with microseconds, a Decimal as text with all its digits, a
    tuple as a list. 1 and 1.0 are two values, and so are ``Decimal("1.0")`` and ``Decimal("1.00")``.

    Raises:
        PayloadError: If there is something in it that has no one form: NaN and infinities, a datetime without a time
            zone, keys that are no text, sets, bytes, objects. It names the place.
    """
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except _Refused as refused:
        place = "".join(f"[{each!r}]" for each in reversed(refused.path))
        message = f"the value{place[:200]} cannot be written as JSON: {refused}"
        raise PayloadError(message) from None
    except RecursionError:
        message = "the value is nested too deeply, or contains itself"
        raise PayloadError(message) from None
    return text.encode("utf-8", "backslashreplace")  # half a character becomes the escape that JSON has for it


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class _Refused(Exception):  # noqa: N818  # it says where, and never leaves this module
    """Something that has no one form; what it stands in is added on the way up."""

    def __init__(self, why: str) -> None:
        """Begin where it was found."""
        super().__init__(why)
        self.path: list[object] = []


def _plain(value: Any) -> Any:
    """Return a value made of what JSON knows."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {_key(key): _inside(key, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_inside(number, each) for number, each in enumerate(value)]
    if isinstance(value, float):
        return _finite(value, math.isfinite(value))
    if isinstance(value, Decimal):
        return str(_finite(value, value.is_finite()))
    if isinstance(value, datetime):
        if value.tzinfo is None:
            why = "a datetime without a time zone means another moment on every machine"
            raise _Refused(why)
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    why = f"{type(value).__name__} has no form in JSON; make it text, a number, a list or a dict"
    raise _Refused(why)


def _inside(place: object, value: Any) -> Any:
    try:
        return _plain(value)
    except _Refused as refused:
        refused.path.append(place)
        raise


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    why = f"the key {key!r:.100} is no text"
    raise _Refused(why)


def _finite(value: Any, is_finite: bool) -> Any:  # noqa: FBT001  # what was found
    if is_finite:
        return value
    why = f"{value} is no number that JSON knows"
    raise _Refused(why)
