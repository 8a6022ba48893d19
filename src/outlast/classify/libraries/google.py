"""google-api-core, google-cloud, google-auth and google-api-python-client: a status with reasons and details, by HTTP or gRPC."""

import re

from outlast.classify import rpc_status
from outlast.classify.codes import judge_code, parse_names
from outlast.classify.libraries.grpc import read_call
from outlast.classify.libraries.httplib2 import read_answer
from outlast.classify.libraries.library import Found, Library, read_attached_response, wrapped
from outlast.classify.rpc_status import details_in_json, judge_limit, read_rpc, with_delay
from outlast.classify.safe_access import (
    BODY_LIMIT,
    read_response,
    safe_error,
    safe_getattr,
    safe_item,
    safe_list,
    safe_str,
    status_of,
    text_of,
)
from outlast.failure import Category, Evidence, Origin

REASONS = rpc_status.RPC_REASONS | parse_names("""
    rate_limit: rateLimitExceeded userRateLimitExceeded rateLimitExceededUnreg userRateLimitExceededUnreg
      servingLimitExceeded concurrentLimitExceeded jobRateLimitExceeded sharingRateLimitExceeded limitExceeded
    quota_exhausted: quotaExceeded dailyLimitExceeded dailyLimitExceededUnreg variableTermLimitExceeded
      storageQuotaExceeded uploadLimitExceeded billingNotEnabled insufficientQuota
    api_temporary: backendError internalError jobBackendError jobInternalError tableUnavailable transientError
    authentication: keyInvalid keyExpired authError accessDenied expired ipRefererBlocked refererBlocked
      accountDeleted
    configuration: accessNotConfigured sslRequired
    not_found: commentsDisabled notFound videoNotFound channelNotFound playlistNotFound deleted
    invalid_parameters: invalid invalidParameter invalidQuery conditionNotMet duplicate conflict resourcesExceeded
      responseTooLarge processingFailure videoRatingDisabled
""")
"""Category by the reason in a response; 'badRequest', 'forbidden' and the like only repeat the status."""

_LIMITS = frozenset({Category.RATE_LIMIT, Category.QUOTA_EXHAUSTED})
_FINER_THAN_HTTP = frozenset({"ABORTED", "CANCELLED", "DATA_LOSS", "RESOURCE_EXHAUSTED"})
_CODE_LIMIT = 100
_CONTENT_LIMIT = 65536
_STATUS_IN_TEXT = re.compile(r"\bResponse status: (\d{3})\b", re.ASCII)
_STATUS_IN_BODY = re.compile(r'"status":\s{0,8}"([A-Z_]{4,30})"')


def read_call_error(error: object) -> Found:
    """The failed gRPC call or HTTP response, with its reasons and details."""
    response = safe_getattr(error, "response")
    found = read_call(response) or read_response(response) or _evidence_of_class(error)
    if found is None or found.origin is Origin.RPC:
        return found
    details = safe_getattr(error, "details")
    if isinstance(details, dict):  # of google-genai: the whole body
        details = safe_item(details, "error", "details")
    return _with_reasons(found, safe_getattr(error, "errors"), details, text_of(error))


def _evidence_of_class(error: object) -> Evidence | None:
    """Return the evidence of the class, if there is no response, as for a job that failed on the server."""
    status_code = status_of(safe_getattr(error, "code"))
    status = safe_str(error, "grpc_status_code", "name")
    if status in rpc_status.RPC_STATUSES:
        return read_rpc(status, text_of(error)).replace(origin=None, http_status=status_code)
    return Evidence(http_status=status_code) if status_code is not None else None


def read_http_error(error: object) -> Found:
    """Status, reasons and details of a response; credentials are always sent, as every call needs a key or a token."""
    found = read_answer(safe_getattr(error, "resp"), safe_str(error, "uri"))
    if found is None:
        return None
    content = safe_getattr(error, "content")
    body = content[:_CONTENT_LIMIT].decode("utf-8", "replace") if isinstance(content, bytes) else ""
    details = _error_in(body)
    found = found.replace(body=body[:BODY_LIMIT], credentials_sent=True)
    if isinstance(details, str):  # of OAuth: {"error": "invalid_grant"}
        return found.replace(code=details[:_CODE_LIMIT])
    if not isinstance(details, dict):
        return found
    return _with_reasons(found, details.get("errors"), details.get("details"), str(details.get("message", "")))


def _error_in(body: str) -> object:
    """Return the 'error' of a JSON response; None for any other response."""
    import json  # noqa: PLC0415  # takes milliseconds to import, and few errors need it

    try:
        decoded = json.loads(body)
    except ValueError:
        return None
    if isinstance(decoded, list):
        decoded = decoded[0] if decoded else None
    return safe_item(decoded, "error")


def _with_reasons(found: Evidence, errors: object, details: object, message: str) -> Evidence:
    """Return the evidence with the reasons and details of a response; the first known reason overrides the status."""
    parsed = details_in_json(details)
    listed = [safe_item(part, "reason") for part in safe_list(errors)]
    reasons = [reason[:_CODE_LIMIT] for reason in (parsed.reason, *listed) if isinstance(reason, str) and reason]
    code = next((reason for reason in reasons if reason in REASONS or judge_code(reason)), None)
    category = REASONS.get(code or "")
    if code is None:
        match = _STATUS_IN_BODY.search(found.body)
        code = match[1] if match and match[1] in rpc_status.RPC_STATUSES else next(iter(reasons), None)
        category = rpc_status.RPC_STATUSES[code] if code in _FINER_THAN_HTTP else None
    if category in _LIMITS:
        category = judge_limit(f"{message} {parsed.words}", category, has_delay=parsed.delay is not None)
    return found.replace(
        code=code or found.code,
        category=category or found.category,
        headers=with_delay(found.headers, parsed.delay),
    )


def read_refresh_error(error: object) -> Found:
    """Whether google-auth marks the failure as temporary; or the connection error to the token server."""
    if safe_getattr(error, "retryable") is True:
        return Evidence(category=Category.API_TEMPORARY)
    chained = safe_error(error, "__cause__"), safe_error(error, "__context__")
    return next((inner for inner in chained if type(inner).__name__ in {"TransportError", "TimeoutError"}), None)


def read_transport_error(error: BaseException) -> Found:
    """The unexpected response, at times only in the text; or the connection error."""
    for part in error.args[:4]:
        if isinstance(part, BaseException):
            return part
        answer = read_response(part)
        if answer is not None:
            return answer
    match = _STATUS_IN_TEXT.search(text_of(error)[:BODY_LIMIT])
    if match:
        return Evidence(http_status=status_of(int(match[1])))
    return safe_error(error, "__cause__")


LIBRARY = Library(
    title="google-api-core, google-cloud, google-auth, google-genai and google-api-python-client",
    packages="google",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: "RetryError TransportError TimeoutError ResponseError TransferStalledError",
        Category.API_TEMPORARY: "ServerError _OperationNotComplete",
        Category.AUTHENTICATION: "RefreshError OAuthError UserAccessTokenError",
        Category.CONFIGURATION: (
            "DefaultCredentialsError MutualTLSChannelError ClientCertError DuplicateCredentialArgs EmptyUniverseError "
            "UniverseMismatchError FeatureGatingError VersionError DescriptorDatabaseConflictingDefinitionError "
            "AsyncRestUnsupportedParameterError googleapiclient.UnknownApiNameOrVersion "
            "googleapiclient.APICoreVersionError"
        ),
        Category.INVALID_PARAMETERS: (
            "ClientError UnseekableStreamError InvalidOperationException InvalidPathError EncodeError "
            "SerializeToJsonError TypeTransformationError googleapiclient.UnknownFileType "
            "googleapiclient.UnacceptableMimeTypeError googleapiclient.MediaUploadSizeError "
            "googleapiclient.InvalidChunkSizeError googleapiclient.UnexpectedBodyError "
            "googleapiclient.UnexpectedMethodError"
        ),
        Category.DATA: (
            "DataCorruption Redirection MissingStatusHeaderError DecodeError ParseError "
            "googleapiclient.InvalidJsonError googleapiclient.InvalidNotificationError googleapiclient.UnknownLinkType"
        ),
        Category.UNKNOWN: "UploadCancelledError",
    },
    readers={
        "GoogleAPICallError": read_call_error,
        "APIError": read_call_error,
        "InvalidResponse": read_attached_response,
        "RetryError": wrapped("cause"),
        "RefreshError": read_refresh_error,
        "TransportError": read_transport_error,
        "googleapiclient.HttpError": read_http_error,
    },
    says_nothing=(
        "GoogleAPIError GoogleAPICallError APIError GoogleAuthError InvalidResponse ResumableTransferError Error "
        "FrozenInstanceError _MemfdCreationError googleapiclient.Error googleapiclient.HttpError"
    ),
)
