"""azure-core and the Azure SDKs built on it: a response with an error code, or a request or response that failed."""

from outlast.classify.codes import judge_code, parse_names
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import (
    header_of,
    read_response,
    safe_error,
    safe_getattr,
    safe_item,
    safe_str,
    status_of,
    text_of,
)
from outlast.failure import Category, Evidence, Origin

_CODE_LIMIT = 100

CODES = parse_names("""
    rate_limit: RequestRateTooLarge TooManyRequests SubscriptionRequestsThrottled ResourceRequestsThrottled
      OperationNotAllowedDueToThrottling RequestThrottled
    api_temporary: ServerBusy OperationTimedOut InternalError InternalServerError ServiceUnavailable ServerTimeout
      GatewayTimeout AnotherOperationInProgress RetryableError OperationPreempted ContainerBeingDeleted
      QueueBeingDeleted ShareBeingDeleted TableBeingDeleted ResourceGroupBeingDeleted AccountBeingCreated
      LeaseIsBreakingAndCannotBeAcquired
    authentication: AuthenticationFailed AuthorizationFailure AuthorizationFailed AuthorizationPermissionMismatch
      AuthorizationProtocolMismatch AuthorizationResourceTypeMismatch AuthorizationServiceMismatch
      AuthorizationSourceIPMismatch InvalidAuthenticationInfo InvalidAuthenticationToken ExpiredAuthenticationToken
      InsufficientAccountPermissions InvalidAuthenticationTokenTenant LinkedAuthorizationFailed AccountIsDisabled
    quota_exhausted: QuotaExceeded AccountLimitExceeded ResourceQuotaExceeded insufficient_quota
    configuration: SubscriptionNotFound MissingSubscriptionRegistration ReadOnlyDisabledSubscription
""")
"""Category by Azure's error codes; the shared codes and the status decide the rest."""


def read_response_error(error: object) -> Found:
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
    outer = (
        safe_str(error, "error", "code")
        or safe_str(error, "error_code")
        or header_of(safe_getattr(error, "response", "headers"), "x-ms-error-code")  # of storage services
    )
    specific = safe_item(safe_getattr(error, "error", "innererror"), "code")
    if isinstance(specific, str) and (specific in CODES or judge_code(specific) is not None):
        return specific[:_CODE_LIMIT]
    return outer[:_CODE_LIMIT] if outer else None


def read_inner(error: object) -> Found:
    """The wrapped error of the HTTP client."""
    return safe_error(error, "inner_exception")


LIBRARY = Library(
    title="azure-core and the Azure SDKs",
    packages="azure",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: "ServiceRequestError ServiceResponseError IncompleteReadError",
        Category.AUTHENTICATION: "ClientAuthenticationError",
        Category.NOT_FOUND: "ResourceNotFoundError",
        Category.INVALID_PARAMETERS: "ResourceExistsError ResourceModifiedError SerializationError BadStatus",
        Category.DATA: "DecodeError DeserializationError TooManyRedirectsError ResourceNotModifiedError BadResponse",
    },
    readers={
        "HttpResponseError": read_response_error,
        "ServiceRequestError ServiceResponseError": read_inner,
    },
    says_nothing=(
        "AzureError HttpResponseError ODataV4Error OperationFailed StreamConsumedError StreamClosedError "
        "ResponseNotReadError _ResponseStopIteration"
    ),
)
