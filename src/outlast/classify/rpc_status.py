"""What travels with a gRPC status: google.rpc's details on the wire or in JSON, read without protobuf."""

import math
import re
from functools import cache

from outlast.failure import Category, Evidence, Frozen, Origin

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
            delay = _wire_seconds(dict(_fields(value)).get(1, b""))
        elif kind == b"ErrorInfo":
            reason = reason or _decode_text(dict(_fields(value)).get(1, b""))[:_REASON_LIMIT]
            words += _texts_in_field(value, 3)
        elif kind == b"QuotaFailure":
            words += _texts_in_field(value, 1)
    return RpcDetails(delay, reason or None, " ".join(words))


def details_in_json(details: object) -> RpcDetails:
    """Read the same details from a decoded JSON list, as Google's REST answers hold it."""
    delay, reason, words = None, None, []
    for detail in details[:_FIELD_LIMIT] if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        kind = str(detail.get("@type", "")).rpartition(".")[2]
        if kind == "RetryInfo":
            delay = _json_seconds(detail.get("retryDelay"))
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


def _wire_seconds(message: bytes) -> float | None:
    parts = dict(_fields(message))
    seconds = _parse_digits(parts.get(1)) + _parse_digits(parts.get(2)) / 1e9
    return seconds if seconds < _LONGEST_WAIT else None  # a negative number is a huge one on the wire


def _parse_digits(digits: bytes | None) -> int:
    return int(digits) if digits and digits.isdigit() and len(digits) <= _MOST_DIGITS else 0


@cache
def _seconds_pattern() -> re.Pattern[str]:
    return re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s", re.ASCII)


def _json_seconds(duration: object) -> float | None:
    match = _seconds_pattern().fullmatch(duration) if isinstance(duration, str) else None
    seconds = float(match[1]) if match else _LONGEST_WAIT
    return seconds if seconds < _LONGEST_WAIT else None


def _decode_text(value: bytes) -> str:
    return value[:_WORDS_LIMIT].decode("utf-8", "replace")


def _texts_in_field(message: bytes, number: int) -> list[str]:
    """Return the texts within each field of that number: a map's keys and values, a violation's subject and words."""
    return [
        _decode_text(value)
        for field, inner in _fields(message)
        if field == number
        for _, value in _fields(inner)
        if value
    ]


# What a gRPC status means, and where its words change that.

_C = Category

RPC_STATUSES: dict[str, Category] = {
    "CANCELLED": _C.UNKNOWN,  # by us, or by somebody who no longer wants the answer
    "UNKNOWN": _C.UNKNOWN,
    "INVALID_ARGUMENT": _C.INVALID_PARAMETERS,
    "DEADLINE_EXCEEDED": _C.NETWORK,
    "NOT_FOUND": _C.NOT_FOUND,
    "ALREADY_EXISTS": _C.INVALID_PARAMETERS,  # as HTTP's 409
    "PERMISSION_DENIED": _C.AUTHENTICATION,  # the caller was identified: who is not gets UNAUTHENTICATED
    "RESOURCE_EXHAUSTED": _C.RATE_LIMIT,
    "FAILED_PRECONDITION": _C.INVALID_PARAMETERS,
    "ABORTED": _C.API_TEMPORARY,
    "OUT_OF_RANGE": _C.INVALID_PARAMETERS,
    "UNIMPLEMENTED": _C.INVALID_PARAMETERS,  # as HTTP's 501
    "INTERNAL": _C.API_TEMPORARY,
    "UNAVAILABLE": _C.API_TEMPORARY,
    "DATA_LOSS": _C.DATA,
    "UNAUTHENTICATED": _C.AUTHENTICATION,
}
"""Category by the name of a gRPC status, where its words say nothing more."""

_REASON_NAMES: dict[Category, str] = {
    _C.RATE_LIMIT: "RATE_LIMIT_EXCEEDED",
    _C.QUOTA_EXHAUSTED: "RESOURCE_QUOTA_EXCEEDED",
    _C.AUTHENTICATION: (
        "API_KEY_INVALID API_KEY_EXPIRED API_KEY_SERVICE_BLOCKED API_KEY_HTTP_REFERRER_BLOCKED "
        "API_KEY_IP_ADDRESS_BLOCKED API_KEY_ANDROID_APP_BLOCKED API_KEY_IOS_APP_BLOCKED ACCESS_TOKEN_EXPIRED "
        "ACCESS_TOKEN_SCOPE_INSUFFICIENT ACCESS_TOKEN_TYPE_UNSUPPORTED CREDENTIALS_MISSING ACCOUNT_STATE_INVALID "
        "IAM_PERMISSION_DENIED USER_PROJECT_DENIED CONSUMER_SUSPENDED SESSION_COOKIE_INVALID"
    ),
    _C.CONFIGURATION: "SERVICE_DISABLED CONSUMER_INVALID BILLING_DISABLED SERVICE_NOT_VISIBLE",
}
RPC_REASONS: dict[str, Category] = {
    name: category for category, names in _REASON_NAMES.items() for name in names.split()
}
"""Category by the reason of a google.rpc.ErrorInfo, which is more exact than the status beside it."""

_LIMITS = frozenset({_C.RATE_LIMIT, _C.QUOTA_EXHAUSTED})
_TEXT_LIMIT = 4096

# Words of the transport, with which a client reports under these statuses what happened to its connection.
_TRANSPORT_STATUSES = frozenset({"UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"})
_TRANSPORT_PATTERN = (
    r"failed to connect|errors resolving|dns resolution|name resolution|address lookup failed|socket closed|"
    r"connection (?:refused|reset|closed|aborted|dropped|timed out|attempt|shutdown)|broken pipe|recvmsg|sendmsg|"
    r"rst_stream|goaway|stream removed|unexpected eo[sf]\b|endpoint (?:read|write) failed|"
    r"transport (?:closed|is closing)|keepalive|ping timeout|handshake|"
    r"http/?2 error code|end of tcp stream|failed parsing http/?2"
)


@cache
def _text_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def judge_limit(said: str, otherwise: Category, *, told_to_wait: bool = False) -> Category:
    """Tell a limit that passes within minutes from an allowance that is used up.

    Args:
        said: All that was said of the limit.
        otherwise: The answer where the words do not tell.
        told_to_wait: Whether a wait came along with it.
    """
    if _text_pattern(r"per[ _-]?(?:day|month)|\b(?:daily|monthly)\b[\w ]{0,20}\b(?:limit|quota|allowance)").search(
        said
    ):
        return _C.QUOTA_EXHAUSTED
    if told_to_wait or _text_pattern(r"per[ _-]?(?:\d+ ?)?(?:minute|second|hour)").search(said):
        return _C.RATE_LIMIT
    spent = r"exceeded your current quota|insufficient[_ ]quota|hard (?:quota|limit)|billing|out of credits"
    return _C.QUOTA_EXHAUSTED if _text_pattern(spent).search(said) else otherwise


def read_rpc(
    status: str, message: str, details: RpcDetails | None = None, headers: "Mapping[str, str] | None" = None
) -> Evidence:
    """Return the evidence of a call that ended with a gRPC status.

    Args:
        status: Its name, one of `STATUSES`.
        message: Its text.
        details: What came along.
        headers: Metadata that says something about waiting.
    """
    details = details or RpcDetails()
    headers = with_delay(headers or {}, details.delay)
    said = f"{message[:_TEXT_LIMIT]} {details.words}"
    proxy = _text_pattern(r"\breceived http2 header with status: ([45]\d\d)\b").search(said)
    if proxy:  # an HTTP server answered, which is no gRPC server
        return Evidence(origin=Origin.RPC, code=status, http_status=int(proxy[1]), headers=headers)
    category = RPC_REASONS.get(details.reason or "") or RPC_STATUSES[status]
    if category in _LIMITS:
        category = _judge_exhausted(said, category, told_to_wait=details.delay is not None)
    elif status in _TRANSPORT_STATUSES:
        category = _judge_transport_status(category, said, told_to_wait=details.delay is not None)
    return Evidence(origin=Origin.RPC, code=status, category=category, headers=headers)


def _judge_exhausted(said: str, category: Category, *, told_to_wait: bool) -> Category:
    if _text_pattern(r"message (?:is )?larger than max|metadata size exceeds").search(said):
        return _C.INVALID_PARAMETERS
    return judge_limit(said, category, told_to_wait=told_to_wait)


def _judge_transport_status(category: Category, said: str, *, told_to_wait: bool) -> Category:
    """Judge statuses with which a client reports its own trouble as well: with connections, credentials, messages."""
    if _text_pattern(r"metadata from plugin failed").search(said) and _text_pattern(
        r"invalid_grant|invalid_client|unauthori[sz]ed|reauth|credentials|expired|revoked|permission|denied"
    ).search(said):
        return _C.AUTHENTICATION
    if _text_pattern(_TRANSPORT_PATTERN).search(said):
        return _C.NETWORK
    if _text_pattern(r"exception deserializing|(?:failed|error) (?:to|while) (?:pars|deserializ|decompress)").search(
        said
    ):
        return _C.DATA
    if _text_pattern(r"exception serializing|failed to serialize").search(said):
        return _C.INVALID_PARAMETERS
    return _C.API_TEMPORARY if category is _C.UNKNOWN and told_to_wait else category


def with_delay(headers: "Mapping[str, str]", delay: float | None) -> "dict[str, str]":
    """Return the headers and a wait among them, so that it is rounded and capped as any other."""
    return {**headers, "retry-after-ms": str(math.ceil(delay * 1000))} if delay is not None else dict(headers)
