"""Weak evidence for errors of unknown libraries: well-known attributes, and words in class names.

Attributes are only read, never called. A value that is not a status, a code or a time is ignored, so a mock, a property
that raises or a ``status = "abc"`` changes nothing.
"""

import re
from enum import Enum
from functools import cache

from outlast.classify.codes import ERRNOS, judge_code, judge_evidence, name_of_errno
from outlast.classify.libraries import entry_of
from outlast.classify.rpc_status import RPC_STATUSES
from outlast.classify.safe_access import read_response, safe_getattr, safe_int, status_of
from outlast.failure import Category, Evidence

_STATUS_ATTRIBUTES = ("status_code", "http_status", "status", "code")
_RETRYABLE_ATTRIBUTES = ("retryable", "retriable", "is_retryable", "should_retry")
_FAILURE_STATUSES = range(400, 600)
_MIN_ERRNO = 32  # smaller numbers are too often codes of a library
_SQLSTATE_LENGTH = 5
_CODE_LIMIT = 100
_PLAIN_CODES = {
    "RATE_LIMITED": Category.RATE_LIMIT,
    "RATE_LIMIT_EXCEEDED": Category.RATE_LIMIT,
    "TOO_MANY_REQUESTS": Category.RATE_LIMIT,
    "THROTTLED": Category.RATE_LIMIT,
    "QUOTA_EXCEEDED": Category.QUOTA_EXHAUSTED,
    "UNAUTHORIZED": Category.AUTHENTICATION,
    "FORBIDDEN": Category.ACCESS_DENIED,
    "BAD_REQUEST": Category.INVALID_PARAMETERS,
    "VALIDATION_ERROR": Category.INVALID_PARAMETERS,
    "CONFLICT": Category.INVALID_PARAMETERS,
    "SERVICE_UNAVAILABLE": Category.API_TEMPORARY,
    "INTERNAL_SERVER_ERROR": Category.API_TEMPORARY,
    "INTERNAL_ERROR": Category.API_TEMPORARY,
    "TIMEOUT": Category.NETWORK,
}

CLASS_NAME_PATTERNS: tuple[tuple[Category, str], ...] = (
    (
        Category.INVALID_PARAMETERS,  # about a setting with that name
        "^(?:Invalid|Missing|Bad|Unsupported|Unknown)\\w*(?:Timeout|RateLimit|Connection)|^No(?:Timeout|RateLimit)|"
        "(?:Timeout|RateLimit|Connection)\\w*(?:NotSupported|NotSet|NotAllowed|Settings?|Preference|Parameter|Option)",
    ),
    (Category.QUOTA_EXHAUSTED, "Quota(?:Exceeded|Exhausted|Error)|BillingLimit\\w*|InsufficientFunds|PaymentRequired"),
    (
        Category.AUTHENTICATION,
        "Unauthori[sz]ed|Unauthenticated|NotAuthenticated|Auth(?:entication|orization)?(?:Error|Failed|Failure|Exception|Required)|"
        "Invalid(?:Credentials?|Token|ApiKey|APIKey|Password)|(?:Token|Credentials?)Expired|Expired(?:Token|Credentials?)|Login(?:Error|Required|Failed)",
    ),
    (Category.ACCESS_DENIED, "Forbidden|AccessDenied|PermissionDenied|PermissionError"),
    (Category.NOT_FOUND, "NotFound|DoesNotExist|NoSuch[A-Z]|Gone(?:Error|Exception)?$"),
    (Category.INTEGRITY, "Duplicate|AlreadyExists|UniqueViolation|IntegrityError|Constraint(?:Violation|Error)"),
    (
        Category.CONFIGURATION,
        "Configuration(?:Error|Exception)|ConfigError|Misconfigured|ImproperlyConfigured|InvalidU[Rr][LI]",
    ),
    (
        Category.INVALID_PARAMETERS,
        "BadRequest|Validation(?:Error|Exception|Failed)|Invalid(?:Argument|Parameter|Params|Request|Input|Value)|"
        "Unprocessable|Conflict|MethodNotAllowed",
    ),
    (
        Category.DATA,
        "(?:Parse|Parser|Parsing|Decode|Decoding|Deserialization|Malformed\\w*|Schema)(?:Error|Exception|Failure)|Malformed(?:Response|Answer|Data)",
    ),
    (Category.RATE_LIMIT, "Throttl|RateLimit|TooManyRequests|SlowDown|FloodWait|RetryAfter"),
    (
        Category.DATABASE_BUSY,
        "Deadlock|LockTimeout|LockNotAvailable|Serialization(?:Failure|Conflict)|DatabaseLocked|TooManyConnections",
    ),
    (Category.SYSTEM, "OutOfMemory|DiskFull|NoSpaceLeft|TooManyOpenFiles"),
    (
        Category.API_TEMPORARY,
        "Unavailable|Overloaded|ServerError|BadGateway|ServerBusy|UnderMaintenance|Temporar(?:y|ily)|Transient|TryAgain|(?<!Non)(?<!Not)Retr[iy]able(?:Error|Exception)",
    ),
    (
        Category.NETWORK,
        "Time(?:d)?[Oo]ut|Connect(?:ion)?(?:Error|Exception|Failed|Failure|Lost|Closed|Reset|Refused|Aborted|Timeout)|"
        "Disconnect(?:ed|ion)?|NotConnected|Network(?:Error|Failure|Exception)|NameResolution|Unreachable|DeadlineExceeded",
    ),
)
"""Words in class names by category; the permanent categories come first."""


def read_attributes(error: BaseException) -> tuple[Category, str, Evidence] | None:
    """Return category, rule name and evidence from the attributes of an error, or None."""
    evidence = evidence_in(error)
    verdict = judge_evidence(evidence)
    if evidence.code is not None and judge_code(evidence.code) is None and (category := _judge_any_code(evidence.code)):
        verdict = category, f"code {evidence.code}"
    flag = next((value for name in _RETRYABLE_ATTRIBUTES if type(value := safe_getattr(error, name)) is bool), None)
    if flag is not None:
        evidence = evidence.replace(retryable=flag)
    if verdict is not None:
        return verdict[0], f"attribute: {verdict[1]}", evidence
    if "retry-after" in evidence.headers:
        return Category.RATE_LIMIT, "attribute: retry_after", evidence
    if flag is not None:
        return (Category.API_TEMPORARY if flag else Category.UNKNOWN), f"attribute: retryable is {flag}", evidence
    return None


def evidence_in(error: BaseException) -> Evidence:
    """Return the evidence in the attributes of an error."""
    found = (
        read_response(safe_getattr(error, "response"), safe_getattr(error, "request"))
        or read_response(error)
        or Evidence()
    )
    facts: dict[str, object] = {}
    for name in _STATUS_ATTRIBUTES:
        value = safe_getattr(error, name)
        if found.http_status is None and "http_status" not in facts and (status := _failing_status(value)):
            facts["http_status"] = status
        elif "code" not in facts and (code := _known_code(value)):
            facts["code"] = code
    for name in ("sqlstate", "pgcode"):
        state = safe_getattr(error, name)
        if isinstance(state, str) and len(state) == _SQLSTATE_LENGTH and state.isascii() and state.isalnum():
            facts["sqlstate"] = state
    number = safe_int(error, "errno")
    if number is not None and number >= _MIN_ERRNO and ERRNOS.get(name_of_errno(number) or "") is Category.NETWORK:
        facts["errno"] = number
    wait = _wait_seconds(safe_getattr(error, "retry_after"))
    if wait is not None and "retry-after" not in found.headers:
        facts["headers"] = {**found.headers, "retry-after": f"{wait:.3f}"}  # as a header, so that it is capped
    if found.http_status is not None and found.http_status not in _FAILURE_STATUSES:
        facts.setdefault("http_status", None)
    return found.replace(**facts) if facts else found


def _failing_status(value: object) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():  # "503"
        value = int(value)
    status = status_of(value)
    return status if status in _FAILURE_STATUSES else None


def _known_code(value: object) -> str | None:
    """Return a known code, from a string or the name of an enum member; else None."""
    if isinstance(value, Enum):
        value = value.name
    if isinstance(value, str) and len(value) <= _CODE_LIMIT and _judge_any_code(value) is not None:
        return value
    return None


def _judge_any_code(code: str) -> Category | None:
    """Return the category of an API code, a gRPC status or a plain code such as ``RATE_LIMITED``."""
    return judge_code(code) or RPC_STATUSES.get(code) or _PLAIN_CODES.get(code.upper())


def _wait_seconds(value: object) -> float | None:
    total = safe_getattr(value, "days"), safe_getattr(value, "seconds"), safe_getattr(value, "microseconds")
    if all(type(part) is int for part in total):  # a timedelta, recognised by its parts
        days, seconds, microseconds = total
        value = days * 86400 + seconds + microseconds / 1e6  # type: ignore[operator]  # integers, as checked above
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None  # a larger number is a timestamp, or nonsense


@cache
def _class_name_patterns() -> tuple[tuple[Category, re.Pattern[str]], ...]:
    return tuple((category, re.compile(pattern)) for category, pattern in CLASS_NAME_PATTERNS)


def read_name(kind: type) -> tuple[Category, str] | None:
    """Return category and class name from the first name in the class hierarchy that matches, or None.

    Classes in the library files, also those listed as saying nothing, end the search.
    """
    for each in kind.__mro__:
        module: object = each.__module__
        if not isinstance(module, str) or entry_of(module.partition(".")[0], each.__name__) is not None:
            return None
        for category, pattern in _class_name_patterns():
            if pattern.search(each.__name__):
                return category, each.__name__
    return None
