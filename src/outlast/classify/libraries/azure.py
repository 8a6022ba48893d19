"""azure-core and the Azure SDKs built on it: a response with an error code, or a request or response that failed."""

from collections.abc import Mapping

from outlast.classify.codes import judge_code
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import read_response, safe_getattr, safe_str, status_of, text_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

_CODE_LIMIT = 100

CODES: dict[str, Category] = {
    name: category
    for category, names in {
        Category.RATE_LIMIT: (
            "RequestRateTooLarge TooManyRequests SubscriptionRequestsThrottled ResourceRequestsThrottled "
            "OperationNotAllowedDueToThrottling RequestThrottled"
        ),
        Category.API_TEMPORARY: (
            "ServerBusy OperationTimedOut InternalError InternalServerError ServiceUnavailable ServerTimeout GatewayTimeout "
            "AnotherOperationInProgress RetryableError OperationPreempted ContainerBeingDeleted QueueBeingDeleted "
            "ShareBeingDeleted TableBeingDeleted ResourceGroupBeingDeleted AccountBeingCreated LeaseIsBreakingAndCannotBeAcquired"
        ),
        Category.AUTHENTICATION: (
            "AuthenticationFailed AuthorizationFailure AuthorizationFailed AuthorizationPermissionMismatch "
            "AuthorizationProtocolMismatch AuthorizationResourceTypeMismatch AuthorizationServiceMismatch "
            "AuthorizationSourceIPMismatch InvalidAuthenticationInfo InvalidAuthenticationToken ExpiredAuthenticationToken "
            "InsufficientAccountPermissions InvalidAuthenticationTokenTenant LinkedAuthorizationFailed AccountIsDisabled"
        ),
        Category.QUOTA_EXHAUSTED: "QuotaExceeded AccountLimitExceeded ResourceQuotaExceeded insufficient_quota",
        Category.CONFIGURATION: "SubscriptionNotFound MissingSubscriptionRegistration ReadOnlyDisabledSubscription",
    }.items()
    for name in names.split()
}
"""Category by Azure's error codes; the shared codes and the status decide the rest."""


def read_response_error(error: object) -> "Found":
    """The response, its status and Azure's error code; or the wrapped error if there was no response."""
    found = read_response(safe_getattr(error, "response"))
    if found is None:
        status = status_of(safe_getattr(error, "status_code"))
        if status is None:
            return read_inner(error)
        found = Evidence(http_status=status)
    code = _code_of(error)
    category = CODES.get(code or "")
    if code == "ServerBusy" and "over the account limit" in text_of(error):
        category = Category.RATE_LIMIT
    return found.replace(code=code, category=category) if code else found


def _code_of(error: object) -> str | None:
    """Return the inner error code if it is known, else the outer one."""
    outer = safe_str(error, "error", "code") or safe_str(error, "error_code") or _header_code(error)
    inner = safe_getattr(error, "error", "innererror")
    specific = inner.get("code") if isinstance(inner, dict) else None
    if isinstance(specific, str) and (specific in CODES or judge_code(specific) is not None):
        return specific[:_CODE_LIMIT]
    return outer[:_CODE_LIMIT] if outer else None


def _header_code(error: object) -> str | None:
    """Return the code that storage services send as a header, even if the body has none."""
    headers = safe_getattr(error, "response", "headers")
    code = headers.get("x-ms-error-code") if isinstance(headers, Mapping) else None
    return code if isinstance(code, str) else None


def read_inner(error: object) -> "Found":
    """The wrapped error of the HTTP client."""
    inner = safe_getattr(error, "inner_exception")
    return inner if isinstance(inner, BaseException) and inner is not error else None


def _azure(names: str) -> str:
    return " ".join(f"azure.{name}" for name in names.split())


LIBRARY = Library(
    title="azure-core and the Azure SDKs",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: _azure("ServiceRequestError ServiceResponseError IncompleteReadError"),
        Category.AUTHENTICATION: _azure("ClientAuthenticationError"),
        Category.NOT_FOUND: _azure("ResourceNotFoundError"),
        Category.INVALID_PARAMETERS: _azure("ResourceExistsError ResourceModifiedError SerializationError BadStatus"),
        Category.DATA: _azure(
            "DecodeError DeserializationError TooManyRedirectsError ResourceNotModifiedError BadResponse"
        ),
    },
    readers={
        "azure.HttpResponseError": read_response_error,
        "azure.ServiceRequestError": read_inner,
        "azure.ServiceResponseError": read_inner,
    },
    says_nothing=_azure(
        "AzureError HttpResponseError ODataV4Error OperationFailed StreamConsumedError StreamClosedError "
        "ResponseNotReadError _ResponseStopIteration"
    ),
)
