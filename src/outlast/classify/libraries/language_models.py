"""openai and anthropic: a status, an error code and type from the body, and headers about retries."""

from outlast.classify.codes import parse_names
from outlast.classify.libraries.library import Found, Library
from outlast.classify.quota import quota_is_exhausted
from outlast.classify.safe_access import read_response, safe_error, safe_getattr, safe_str, text_of
from outlast.classify.statuses import category_of_status
from outlast.failure import Category, Evidence, Origin

_C = Category

CODES = parse_names("""
    quota_exhausted: insufficient_quota billing_hard_limit_reached billing_not_active billing_error quota_exceeded
      enforced_spend_limit_reached storage_quota_exceeded org_member_limit_exceeded org_api_key_limit_exceeded
      workspace_api_key_limit_exceeded workspace_member_limit_exceeded credit_balance_exhausted
      organization_spend_limit_exceeded project_spend_limit_exceeded organization_usage_limit_exceeded
    rate_limit: rate_limit_exceeded rate_limit_error ramp_limit_exceeded slow_down tokens_exceeded
    api_temporary: server_error overloaded_error engine_overloaded timeout_error scan_pending
      concurrent_membership_change external_key_changed external_key_validation_timed_out compaction_unavailable
      cmek_key_unreachable cmek_context_unavailable registration_pending
    authentication: invalid_api_key authentication_error account_deactivated invalid_organization
      organization_on_hold claude_code_key_creator_not_member
    access_denied: unsupported_country_region_territory
    configuration: cmek_key_disabled cmek_key_network_blocked claude_code_version_too_old
    not_found: model_not_found thread_not_found user_profile_not_found file_expired
    invalid_parameters: context_length_exceeded content_filter content_policy_violation string_above_max_length
      request_too_large plugin_name_taken skill_name_taken slack_channel_set_up_settings_conflict
      skill_read_blocked_undecryptable
""")
"""Category by error code; a code is more specific than the status."""

TYPES: dict[str, Category] = {
    "api_error": _C.API_TEMPORARY,
    "conflict_error": _C.API_TEMPORARY,
    "invalid_request_error": _C.INVALID_PARAMETERS,
    "not_found_error": _C.NOT_FOUND,
    "permission_error": _C.AUTHENTICATION,
}
"""Category by the broad type of an error; it counts if there is no status, as in the middle of a stream."""

_CONFLICT = 409


def read_answer(error: object) -> Found:
    """The code or type in the body, then the status; a 409 is a lock of another client, and `x-should-retry` is respected."""
    response = safe_getattr(error, "response")
    evidence = read_response(response, safe_getattr(error, "request")) or Evidence(origin=Origin.HTTP)
    code = safe_str(error, "error_code") or safe_str(error, "code")
    kind = safe_str(error, "type")
    category = CODES.get(code or "") or CODES.get(kind or "")
    status = evidence.http_status
    if category is None and (status is None or category_of_status(status) is None):
        category = TYPES.get(kind or "")
    elif category is None and status == _CONFLICT:
        category = _C.API_TEMPORARY
    if quota_is_exhausted(text_of(error)):
        category = _C.QUOTA_EXHAUSTED
    return evidence.replace(code=code or kind, category=category)


def read_cause(error: object) -> Found:
    """The wrapped error of the HTTP client."""
    return safe_error(error, "__cause__")


def read_event(error: object) -> Found:
    """The code in the error event of a WebSocket."""
    code = safe_str(error, "event", "error", "code") or safe_str(error, "event", "error", "type")
    category = CODES.get(code or "") or TYPES.get(code or "")
    return Evidence(category=category, code=code) if code else None


def read_bare(error: object) -> Found:
    """The text of a base class that is raised itself: both libraries do so if the API key is missing."""
    bare = type(error).__name__ in {"OpenAIError", "AnthropicError"}
    text = text_of(error)[:500].lower() if bare else ""
    if "environment variable" in text or "api_key" in text or "must provide" in text:
        return Evidence(category=_C.CONFIGURATION)
    return None


def read_exchange(error: object) -> Found:
    """The status of a rejected token exchange."""
    status = read_response(error) or read_response(safe_getattr(error, "response"))
    return status or read_cause(error)


LIBRARY = Library(
    title="openai and anthropic",
    packages="openai anthropic",
    origin=Origin.HTTP,
    categories={
        _C.NETWORK: ("APIConnectionError openai.WebSocketConnectionClosedError openai._TransientTokenExchangeError"),
        _C.RATE_LIMIT: "RateLimitError",
        _C.API_TEMPORARY: ("InternalServerError ConflictError anthropic.RequestTimeoutError anthropic.RetryableError"),
        _C.SYSTEM: "openai.WebSocketQueueFullError openai.ResponsesWebSocketBufferError",
        _C.AUTHENTICATION: (
            "AuthenticationError PermissionDeniedError openai.SubjectTokenProviderError "
            "openai.InvalidWebhookSignatureError anthropic.WorkloadIdentityError"
        ),
        _C.CONFIGURATION: (
            "MissingDependencyError MutuallyExclusiveAuthError openai._AmbiguousModuleClientUsageError "
            "openai.APIRemovedInV1 anthropic.CredentialsError"
        ),
        _C.NOT_FOUND: "NotFoundError",
        _C.DATA: (
            "APIResponseValidationError anthropic.APIWebhookValidationError anthropic._NonObjectPayloadError "
            "openai.LengthFinishReasonError openai.AgentOutputParseError"
        ),
        _C.INVALID_PARAMETERS: (
            "BadRequestError UnprocessableEntityError StreamAlreadyConsumed openai.ContentFilterFinishReasonError "
            "openai.BrowserError anthropic.ContentTooLargeError anthropic.PreconditionFailedError "
            "anthropic.RequestHeaderFieldsTooLargeError anthropic.ToolsetUsageError anthropic.ToolError "
            "anthropic.FileStoreError MissingStreamClassError"
        ),
    },
    readers={
        "APIStatusError APIError": read_answer,
        "APIConnectionError": read_cause,
        "openai.OpenAIError anthropic.AnthropicError": read_bare,
        "openai.ResponsesWebSocketError": read_event,
        "openai.SubjectTokenProviderError anthropic.WorkloadIdentityError": read_exchange,
    },
    says_nothing=(
        "APIError APIStatusError openai.OpenAIError anthropic.AnthropicError anthropic.SessionMemoryError "
        "openai.AgentFilePreparationError openai.AgentFileStagingError openai.AgentTurnResultError "
        "openai.BrowserCancelledError openai.ComputerUseError openai.DecisionsToolRunnerCancelledError "
        "openai.DecisionsToolRunnerError openai.ToolRunnerCancelledError openai.ToolRunnerError "
        "openai.ResponsesWebSocketError"
    ),
)
