"""stripe: a status, an error code and a decline code, and a header that says whether to retry."""

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import header_of, read_headers, safe_getattr, safe_str, status_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

_C = Category

_NAMES: dict[Category, str] = {
    _C.RATE_LIMIT: "rate_limit",
    _C.API_TEMPORARY: (
        "lock_timeout idempotency_key_in_use processing_error issuer_not_available try_again_later "
        "reenter_transaction approve_with_id"
    ),
    _C.NOT_FOUND: "resource_missing no_such_resource",
    _C.AUTHENTICATION: (
        "api_key_expired platform_api_key_expired account_invalid secret_key_required invalid_client "
        "account_closed testmode_charges_only livemode_mismatch"
    ),
    _C.QUOTA_EXHAUSTED: "balance_insufficient quota_exceeded",
}
CODES: dict[str, Category] = {name: category for category, names in _NAMES.items() for name in names.split()}
"""Category by error code and by decline code; a card declined for any other reason stays declined."""


def read_answer(error: object) -> "Found":
    """Code, decline code, status and the `Stripe-Should-Retry` header."""
    headers = safe_getattr(error, "headers")
    details = _error_in(safe_getattr(error, "json_body"))
    code = safe_str(error, "code") or _text(details, "code")
    decline = _text(details, "decline_code")
    category = CODES.get(decline or "") or CODES.get(code or "")
    status = status_of(safe_getattr(error, "http_status"))
    if category is None and status in {402, 409}:  # 402: a failed payment, not an exhausted quota; 409: a lock
        category = _C.INVALID_PARAMETERS if status == 402 else _C.API_TEMPORARY
    return Evidence(
        origin=Origin.HTTP,
        http_status=status,
        headers=read_headers(headers),
        code=decline or code,
        category=category,
        retryable={"true": True, "false": False}.get(header_of(headers, "stripe-should-retry") or ""),
        credentials_sent=True,
    )


def read_key_error(error: object) -> "Found":
    """The response, or, without a status, a missing API key."""
    if safe_getattr(error, "http_status") is None:
        return Evidence(origin=Origin.HTTP, category=_C.CONFIGURATION)
    return read_answer(error)


def _error_in(body: object) -> dict[object, object]:
    details = body.get("error") if isinstance(body, dict) else None
    return details if isinstance(details, dict) else {}


def _text(details: dict[object, object], key: str) -> str | None:
    value = details.get(key)
    return value if isinstance(value, str) else None


def read_connection_error(error: object) -> "Found":
    """The wrapped error of the HTTP client."""
    cause = safe_getattr(error, "__cause__")
    return cause if isinstance(cause, BaseException) else None


def _stripe(names: str) -> str:
    return " ".join(f"stripe.{name}" for name in names.split())


LIBRARY = Library(
    title="stripe",
    origin=Origin.HTTP,
    categories={
        _C.NETWORK: _stripe("APIConnectionError"),
        _C.RATE_LIMIT: _stripe("RateLimitError"),
        _C.QUOTA_EXHAUSTED: _stripe("QuotaExceededError"),
        _C.AUTHENTICATION: _stripe(
            "AuthenticationError PermissionError SignatureVerificationError InvalidClientError InvalidGrantError "
            "TemporarySessionExpiredError"
        ),
        _C.CONFIGURATION: _stripe("CapabilityNotEnabledError FeatureNotEnabledError"),
        _C.INVALID_PARAMETERS: _stripe(
            "CardError IdempotencyError InvalidRequestError InvalidScopeError UnsupportedGrantTypeError "
            "UnsupportedResponseTypeError AlreadyCanceledError BlockedByStripeError CannotProceedError "
            "ControlledByAlternateResourceError FinancialAccountNotOpenError FxQuoteNeedsRefreshError InsufficientFundsError "
            "InvalidPaymentMethodError InvalidPayoutMethodError InvalidVaultedCredentialError NotCancelableError "
            "RecipientNotNotifiableError VerificationAttemptFailedError VerificationExpiredError VerificationNotInitiatedError"
        ),
    },
    readers={
        "stripe.StripeError": read_answer,
        "stripe.APIConnectionError": read_connection_error,
        "stripe.AuthenticationError": read_key_error,
    },
    says_nothing=_stripe("StripeError StripeErrorWithParamCode APIError OAuthError"),
)
