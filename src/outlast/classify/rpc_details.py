"""What travels with a gRPC status: google.rpc's details on the wire or in JSON, read without protobuf."""

import re
from functools import cache

from outlast.values import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RpcDetails", "details_in_json", "details_on_wire"]

_STATUS_DETAILS = 3  # number of that field in google.rpc.Status; 1 is the code, 2 the message
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5  # protobuf's ways to write a field
_LAST_BYTE = 128  # a byte below ends a varint
_WIRE_LIMIT = 65536
_FIELD_LIMIT = 1000
_WORDS_LIMIT = 1024
_REASON_LIMIT = 100
_MOST_DIGITS = 20  # of a varint
_LONGEST_WAIT = 1e9  # beyond is nonsense, as a negative one is


class RpcDetails(Frozen):
    """What the details of a status say.

    Attributes:
        delay: Seconds to wait, from a RetryInfo.
        reason: Reason of an ErrorInfo, such as ``API_KEY_INVALID``.
        words: What an ErrorInfo's metadata and a QuotaFailure's violations say of the limit that was hit.
    """

    delay: float | None
    reason: str | None
    words: str

    def __init__(self, delay: float | None = None, reason: str | None = None, words: str = "") -> None:
        """Keep the fields."""
        self.__dict__.update(delay=delay, reason=reason, words=words[:_WORDS_LIMIT])


def details_on_wire(status: bytes) -> RpcDetails:
    """Read a serialised google.rpc.Status, as trailing metadata holds it; what is cut off or broken is left out."""
    delay, reason, words = None, None, []
    for number, detail in _fields(status[:_WIRE_LIMIT]):
        if number != _STATUS_DETAILS:
            continue
        parts = dict(_fields(detail))
        kind, value = parts.get(1, b"").rpartition(b".")[2], parts.get(2, b"")
        if kind == b"RetryInfo":
            delay = _duration(dict(_fields(value)).get(1, b""))
        elif kind == b"ErrorInfo":
            reason = reason or _text(dict(_fields(value)).get(1, b""))[:_REASON_LIMIT]
            words += _texts(value, 3)
        elif kind == b"QuotaFailure":
            words += _texts(value, 1)
    return RpcDetails(delay, reason or None, " ".join(words))


def details_in_json(details: object) -> RpcDetails:
    """Read the same details from a decoded JSON list, as Google's REST answers hold it."""
    delay, reason, words = None, None, []
    for detail in details[:_FIELD_LIMIT] if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        kind = str(detail.get("@type", "")).rpartition(".")[2]
        if kind == "RetryInfo":
            delay = _seconds(detail.get("retryDelay"))
        elif kind == "ErrorInfo":
            said = detail.get("reason")
            reason = reason or (said[:_REASON_LIMIT] if isinstance(said, str) else None)
            words.append(str(detail.get("metadata", "")))
        elif kind == "QuotaFailure":
            words.append(str(detail.get("violations", "")))
    return RpcDetails(delay, reason, " ".join(words))


def _fields(message: bytes) -> "Iterator[tuple[int, bytes]]":
    """Yield the number and the bytes of each field; a whole number comes as its decimal digits."""
    position, count = 0, 0
    while position < len(message) and count < _FIELD_LIMIT:
        count += 1
        key, position = _varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield key >> 3, str(value).encode()
        elif kind == _SIZED:
            size, position = _varint(message, position)
            yield key >> 3, message[position : position + size]
            position += size
        elif kind in {_EIGHT_BYTES, _FOUR_BYTES}:
            position += 8 if kind == _EIGHT_BYTES else 4
        else:  # groups are long gone; what else stands here is no message
            return


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < _LAST_BYTE:
            break
    return value, position


def _duration(message: bytes) -> float | None:
    parts = dict(_fields(message))
    seconds = _whole(parts.get(1)) + _whole(parts.get(2)) / 1e9
    return seconds if seconds < _LONGEST_WAIT else None  # a negative number is a huge one on the wire


def _whole(digits: bytes | None) -> int:
    return int(digits) if digits and digits.isdigit() and len(digits) <= _MOST_DIGITS else 0


@cache
def _plain_seconds() -> re.Pattern[str]:
    return re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s", re.ASCII)


def _seconds(duration: object) -> float | None:
    match = _plain_seconds().fullmatch(duration) if isinstance(duration, str) else None
    seconds = float(match[1]) if match else _LONGEST_WAIT
    return seconds if seconds < _LONGEST_WAIT else None


def _text(value: bytes) -> str:
    return value[:_WORDS_LIMIT].decode("utf-8", "replace")


def _texts(message: bytes, number: int) -> list[str]:
    """Return the texts within each field of that number: a map's keys and values, a violation's subject and words."""
    return [
        _text(value) for field, inner in _fields(message) if field == number for _, value in _fields(inner) if value
    ]
