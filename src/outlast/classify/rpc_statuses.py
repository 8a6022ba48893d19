"""What a gRPC status means, and where its words change that."""

import math
import re
from functools import cache

from outlast.classify.rpc_details import RpcDetails
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["REASONS", "STATUSES", "judge_limit", "read_rpc", "with_delay"]

_C = Category

STATUSES: dict[str, Category] = {
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
REASONS: dict[str, Category] = {name: category for category, names in _REASON_NAMES.items() for name in names.split()}
"""Category by the reason of a google.rpc.ErrorInfo, which is more exact than the status beside it."""

_LIMITS = frozenset({_C.RATE_LIMIT, _C.QUOTA_EXHAUSTED})
_SAID_LIMIT = 4096

# Words of the transport, with which a client reports under these statuses what happened to its connection.
_ON_THE_WAY = frozenset({"UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"})
_TRANSPORT = (
    r"failed to connect|errors resolving|dns resolution|name resolution|address lookup failed|socket closed|"
    r"connection (?:refused|reset|closed|aborted|dropped|timed out|attempt|shutdown)|broken pipe|recvmsg|sendmsg|"
    r"rst_stream|goaway|stream removed|unexpected eo[sf]\b|endpoint (?:read|write) failed|"
    r"transport (?:closed|is closing)|keepalive|ping timeout|handshake|"
    r"http/?2 error code|end of tcp stream|failed parsing http/?2"
)


@cache
def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def judge_limit(said: str, otherwise: Category, *, told_to_wait: bool = False) -> Category:
    """Tell a limit that passes within minutes from an allowance that is used up.

    Args:
        said: All that was said of the limit.
        otherwise: The answer where the words do not tell.
        told_to_wait: Whether a wait came along with it.
    """
    if _words(r"per[ _-]?(?:day|month)|\b(?:daily|monthly)\b[\w ]{0,20}\b(?:limit|quota|allowance)").search(said):
        return _C.QUOTA_EXHAUSTED
    if told_to_wait or _words(r"per[ _-]?(?:\d+ ?)?(?:minute|second|hour)").search(said):
        return _C.RATE_LIMIT
    spent = r"exceeded your current quota|insufficient[_ ]quota|hard (?:quota|limit)|billing|out of credits"
    return _C.QUOTA_EXHAUSTED if _words(spent).search(said) else otherwise


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
    said = f"{message[:_SAID_LIMIT]} {details.words}"
    proxy = _words(r"\breceived http2 header with status: ([45]\d\d)\b").search(said)
    if proxy:  # an HTTP server answered, which is no gRPC server
        return Evidence(origin=Origin.RPC, code=status, http_status=int(proxy[1]), headers=headers)
    category = REASONS.get(details.reason or "") or STATUSES[status]
    if category in _LIMITS:
        category = _judge_exhausted(said, category, told_to_wait=details.delay is not None)
    elif status in _ON_THE_WAY:
        category = _judge_on_the_way(category, said, told_to_wait=details.delay is not None)
    return Evidence(origin=Origin.RPC, code=status, category=category, headers=headers)


def _judge_exhausted(said: str, category: Category, *, told_to_wait: bool) -> Category:
    if _words(r"message (?:is )?larger than max|metadata size exceeds").search(said):
        return _C.INVALID_PARAMETERS
    return judge_limit(said, category, told_to_wait=told_to_wait)


def _judge_on_the_way(category: Category, said: str, *, told_to_wait: bool) -> Category:
    """Judge statuses with which a client reports its own trouble as well: with connections, credentials, messages."""
    if _words(r"metadata from plugin failed").search(said) and _words(
        r"invalid_grant|invalid_client|unauthori[sz]ed|reauth|credentials|expired|revoked|permission|denied"
    ).search(said):
        return _C.AUTHENTICATION
    if _words(_TRANSPORT).search(said):
        return _C.NETWORK
    if _words(r"exception deserializing|(?:failed|error) (?:to|while) (?:pars|deserializ|decompress)").search(said):
        return _C.DATA
    if _words(r"exception serializing|failed to serialize").search(said):
        return _C.INVALID_PARAMETERS
    return _C.API_TEMPORARY if category is _C.UNKNOWN and told_to_wait else category


def with_delay(headers: "Mapping[str, str]", delay: float | None) -> "dict[str, str]":
    """Return the headers and a wait among them, so that it is rounded and capped as any other."""
    return {**headers, "retry-after-ms": str(math.ceil(delay * 1000))} if delay is not None else dict(headers)
