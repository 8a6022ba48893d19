"""Categories of gRPC statuses, and google.rpc details on the wire or in JSON, read without protobuf."""

import math
import re

from outlast.classify.codes import parse_names
from outlast.classify.quota import SHORT, judge_quota
from outlast.classify.safe_access import BODY_LIMIT
from outlast.failure import Category, Evidence, Frozen, Origin
from outlast.patterns import compiled

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_STATUS_DETAILS = 3  # field number in google.rpc.Status; 1 is the code, 2 the message
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5  # protobuf wire types
_LAST_BYTE = 128  # a smaller byte ends a varint
_WIRE_LIMIT = 65536
_FIELD_LIMIT = 1000
_WORDS_LIMIT = 1024
_REASON_LIMIT = 100
_MAX_DIGITS = 20  # of a varint
_LONGEST_WAIT = 1e9  # seconds; larger and negative values are ignored


class RpcDetails(Frozen):
    """The details of a gRPC status.

    Attributes:
        delay: Seconds to wait, from a RetryInfo.
        reason: Reason of an ErrorInfo, such as ``API_KEY_INVALID``.
        words: Text of an ErrorInfo's metadata and a QuotaFailure's violations, about the limit that was hit.
    """

    delay: float | None
    reason: str | None
    words: str

    def __init__(self, delay: float | None = None, reason: str | None = None, words: str = "") -> None:
        self.__dict__.update(delay=delay, reason=reason, words=words[:_WORDS_LIMIT])


def details_on_wire(status: bytes) -> RpcDetails:
    """Return the details of a serialised google.rpc.Status from trailing metadata; broken parts are ignored."""
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
    """Return the details of a decoded JSON list, as in Google's REST responses."""
    delay, reason, words = None, None, []
    for detail in details[:_FIELD_LIMIT] if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        kind = str(detail.get("@type", "")).rpartition(".")[2]
        if kind == "RetryInfo":
            delay = _json_seconds(detail.get("retryDelay"))
        elif kind == "ErrorInfo":
            value = detail.get("reason")
            reason = reason or (value[:_REASON_LIMIT] if isinstance(value, str) else None)
            words.append(str(detail.get("metadata", "")))
        elif kind == "QuotaFailure":
            words.append(str(detail.get("violations", "")))
    return RpcDetails(delay, reason, " ".join(words))


def _fields(message: bytes) -> "Iterator[tuple[int, bytes]]":
    """Yield the number and the bytes of each field; an integer as its decimal digits."""
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
        else:  # groups are obsolete; anything else is not a message
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
    return int(digits) if digits and digits.isdigit() and len(digits) <= _MAX_DIGITS else 0


def _json_seconds(duration: object) -> float | None:
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s", duration) if isinstance(duration, str) else None
    return float(match[1]) if match and float(match[1]) < _LONGEST_WAIT else None


def _decode_text(value: bytes) -> str:
    return value[:_WORDS_LIMIT].decode("utf-8", "replace")


def _texts_in_field(message: bytes, number: int) -> list[str]:
    """Return the texts in each field with this number: keys and values of a map, subject and text of a violation."""
    return [
        _decode_text(value)
        for field, inner in _fields(message)
        if field == number
        for _, value in _fields(inner)
        if value
    ]


_C = Category

RPC_STATUSES: dict[str, Category] = {
    "CANCELLED": _C.UNKNOWN,  # by this program, or by a caller that no longer needs the response
    "UNKNOWN": _C.UNKNOWN,
    "INVALID_ARGUMENT": _C.INVALID_PARAMETERS,
    "DEADLINE_EXCEEDED": _C.NETWORK,
    "NOT_FOUND": _C.NOT_FOUND,
    "ALREADY_EXISTS": _C.INVALID_PARAMETERS,  # like HTTP 409
    "PERMISSION_DENIED": _C.AUTHENTICATION,  # the caller was identified; otherwise the status is UNAUTHENTICATED
    "RESOURCE_EXHAUSTED": _C.RATE_LIMIT,
    "FAILED_PRECONDITION": _C.INVALID_PARAMETERS,
    "ABORTED": _C.API_TEMPORARY,
    "OUT_OF_RANGE": _C.INVALID_PARAMETERS,
    "UNIMPLEMENTED": _C.INVALID_PARAMETERS,  # like HTTP 501
    "INTERNAL": _C.API_TEMPORARY,
    "UNAVAILABLE": _C.API_TEMPORARY,
    "DATA_LOSS": _C.DATA,
    "UNAUTHENTICATED": _C.AUTHENTICATION,
}
"""Category by the name of a gRPC status, if its message is not more specific."""

RPC_REASONS = parse_names("""
    rate_limit: RATE_LIMIT_EXCEEDED
    quota_exhausted: RESOURCE_QUOTA_EXCEEDED
    authentication: API_KEY_INVALID API_KEY_EXPIRED API_KEY_SERVICE_BLOCKED API_KEY_HTTP_REFERRER_BLOCKED
      API_KEY_IP_ADDRESS_BLOCKED API_KEY_ANDROID_APP_BLOCKED API_KEY_IOS_APP_BLOCKED ACCESS_TOKEN_EXPIRED
      ACCESS_TOKEN_SCOPE_INSUFFICIENT ACCESS_TOKEN_TYPE_UNSUPPORTED CREDENTIALS_MISSING ACCOUNT_STATE_INVALID
      IAM_PERMISSION_DENIED USER_PROJECT_DENIED CONSUMER_SUSPENDED SESSION_COOKIE_INVALID
    configuration: SERVICE_DISABLED CONSUMER_INVALID BILLING_DISABLED SERVICE_NOT_VISIBLE
""")
"""Category by the reason of a google.rpc.ErrorInfo, which is more specific than the status."""

_LIMITS = frozenset({_C.RATE_LIMIT, _C.QUOTA_EXHAUSTED})

# With these statuses a client also reports problems of its own connection, in these words.
_TRANSPORT_STATUSES = frozenset({"UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"})
_TRANSPORT_PATTERN = (
    r"failed to connect|errors resolving|dns resolution|name resolution|address lookup failed|socket closed|"
    r"connection (?:refused|reset|closed|aborted|dropped|timed out|attempt|shutdown)|broken pipe|recvmsg|sendmsg|"
    r"rst_stream|goaway|stream removed|unexpected eo[sf]\b|endpoint (?:read|write) failed|"
    r"transport (?:closed|is closing)|keepalive|ping timeout|handshake|"
    r"http/?2 error code|end of tcp stream|failed parsing http/?2"
)


def _search(pattern: str, text: str) -> re.Match[str] | None:
    return re.search(pattern, text, re.IGNORECASE)


def judge_limit(text: str, default: Category, *, has_delay: bool = False) -> Category:
    """Return whether a limit is a rate limit, which passes within minutes, or an exhausted quota.

    Args:
        text: All texts about the limit.
        default: The category to return if the text does not show it.
        has_delay: Whether the server asked for a wait.
    """
    if _search(r"per[ _-]?(?:day|month)|\b(?:daily|monthly)\b[\w ]{0,20}\b(?:limit|quota|allowance)", text):
        return _C.QUOTA_EXHAUSTED
    if has_delay or compiled(SHORT).search(text.lower()):
        return _C.RATE_LIMIT
    judged = judge_quota(text)
    return default if judged is None else judged[0]


def read_rpc(
    status: str, message: str, details: RpcDetails | None = None, headers: "Mapping[str, str] | None" = None
) -> Evidence:
    """Return the evidence of a call that ended with a gRPC status.

    Args:
        status: Its name, one of `RPC_STATUSES`.
        message: Its text.
        details: Its details.
        headers: Metadata about waiting.
    """
    details = details or RpcDetails()
    headers = with_delay(headers or {}, details.delay)
    text = f"{message[:BODY_LIMIT]} {details.words}"
    proxy = _search(r"\breceived http2 header with status: ([45]\d\d)\b", text)
    if proxy:  # an HTTP server answered that is not a gRPC server
        return Evidence(origin=Origin.RPC, code=status, http_status=int(proxy[1]), headers=headers)
    category = RPC_REASONS.get(details.reason or "") or RPC_STATUSES[status]
    if category in _LIMITS:
        category = _judge_exhausted(text, category, has_delay=details.delay is not None)
    elif status in _TRANSPORT_STATUSES:
        category = _judge_transport_status(category, text, has_delay=details.delay is not None)
    return Evidence(origin=Origin.RPC, code=status, category=category, headers=headers)


def _judge_exhausted(text: str, category: Category, *, has_delay: bool) -> Category:
    if _search(r"message (?:is )?larger than max|metadata size exceeds", text):
        return _C.INVALID_PARAMETERS
    return judge_limit(text, category, has_delay=has_delay)


def _judge_transport_status(category: Category, text: str, *, has_delay: bool) -> Category:
    """Return the category of a status with which a client also reports its own problems, such as a lost connection."""
    if _search("metadata from plugin failed", text) and _search(
        "invalid_grant|invalid_client|unauthori[sz]ed|reauth|credentials|expired|revoked|permission|denied", text
    ):
        return _C.AUTHENTICATION
    if _search(_TRANSPORT_PATTERN, text):
        return _C.NETWORK
    if _search("exception deserializing|(?:failed|error) (?:to|while) (?:pars|deserializ|decompress)", text):
        return _C.DATA
    if _search(r"exception serializing|failed to serialize", text):
        return _C.INVALID_PARAMETERS
    return _C.API_TEMPORARY if category is _C.UNKNOWN and has_delay else category


def with_delay(headers: "Mapping[str, str]", delay: float | None) -> "dict[str, str]":
    """Return the headers with the delay added as a header, so that it is rounded and capped like any other."""
    return {**headers, "retry-after-ms": str(math.ceil(delay * 1000))} if delay is not None else dict(headers)
