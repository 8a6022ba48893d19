"""stripe: a status, an error code and a decline code, and a header that says whether to retry."""

from outlast.classify.codes import parse_names
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import read_headers, safe_getattr, safe_item, safe_str, status_of
from outlast.failure import Category, Evidence, Origin

_C = Category

CODES = parse_names("""
    rate_limit: rate_limit
    api_temporary: lock_timeout idempotency_key_in_use processing_error issuer_not_available try_again_later
      reenter_transaction approve_with_id
    not_found: resource_missing no_such_resource
    authentication: api_key_expired platform_api_key_expired account_invalid secret_key_required invalid_client
      account_closed testmode_charges_only livemode_mismatch
    quota_exhausted: balance_insufficient quota_exceeded
""")
"""Category by error code and by decline code; a card declined for any other reason stays declined."""


def read_answer(error: object) -> Found:
    """Code, decline code, status and the `Stripe-Should-Retry` header."""
    body = safe_getattr(error, "json_body")
    code = safe_str(error, "code") or _text(body, "code")
    decline = _text(body, "decline_code")
    category = CODES.get(decline or "") or CODES.get(code or "")
    status = status_of(safe_getattr(error, "http_status"))
    if category is None and status in {402, 409}:  # 402: a failed payment, not an exhausted quota; 409: a lock
        category = _C.INVALID_PARAMETERS if status == 402 else _C.API_TEMPORARY
    return Evidence(
        origin=Origin.HTTP,
        http_status=status,
        headers=read_headers(safe_getattr(error, "headers")),
        code=decline or code,
        category=category,
        credentials_sent=True,
    )


def read_key_error(error: object) -> Found:
    """The response, or, without a status, a missing API key."""
    if safe_getattr(error, "http_status") is None:
        return Evidence(origin=Origin.HTTP, category=_C.CONFIGURATION)
    return read_answer(error)


def _text(body: object, key: str) -> str | None:
    value = safe_item(body, "error", key)
    return value if isinstance(value, str) else None


LIBRARY = Library(
    title="stripe",
    packages="stripe",
    origin=Origin.HTTP,
    categories={
        _C.NETWORK: "APIConnectionError",
        _C.RATE_LIMIT: "RateLimitError",
        _C.QUOTA_EXHAUSTED: "QuotaExceededError",
        _C.AUTHENTICATION: (
            "AuthenticationError PermissionError SignatureVerificationError InvalidClientError InvalidGrantError "
            "TemporarySessionExpiredError"
        ),
        _C.CONFIGURATION: "CapabilityNotEnabledError FeatureNotEnabledError",
        _C.INVALID_PARAMETERS: (
            "CardError IdempotencyError InvalidRequestError InvalidScopeError UnsupportedGrantTypeError "
            "UnsupportedResponseTypeError AlreadyCanceledError BlockedByStripeError CannotProceedError "
            "ControlledByAlternateResourceError FinancialAccountNotOpenError FxQuoteNeedsRefreshError "
            "InsufficientFundsError InvalidPaymentMethodError InvalidPayoutMethodError InvalidVaultedCredentialError "
            "NotCancelableError RecipientNotNotifiableError VerificationAttemptFailedError VerificationExpiredError "
            "VerificationNotInitiatedError"
        ),
    },
    readers={
        "StripeError": read_answer,
        "APIConnectionError": wrapped("__cause__"),
        "AuthenticationError": read_key_error,
    },
    says_nothing="StripeError StripeErrorWithParamCode APIError OAuthError",
)
