"""slack_sdk: the error code of Slack's response, with its status and Retry-After."""

from outlast.classify.codes import parse_names
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import read_headers, safe_getattr, safe_item, status_of, text_of
from outlast.classify.statuses import category_of_status
from outlast.failure import Category, Evidence, Origin

_C = Category
_CODE_LIMIT = 100

CODES = parse_names("""
    rate_limit: ratelimited rate_limited rate_limit message_limit_exceeded
    api_temporary: internal_error internal_server_error fatal_error service_unavailable request_timeout
      team_added_to_org rollup_error accesslimited external_channel_migrating no_response
    authentication: invalid_auth not_authed token_revoked token_expired account_inactive access_denied missing_scope
      no_permission not_allowed_token_type ekm_access_denied enterprise_is_restricted team_access_not_granted
      two_factor_setup_required org_login_required invalid_client_id bad_client_secret invalid_refresh_token
      user_is_restricted user_is_bot invalid_code app_missing_action_url not_allowed restricted_action
    not_found: is_archived message_not_found thread_not_found no_service action_prohibited no_team no_active_hooks
      file_deleted
    quota_exhausted: storage_limit_reached over_pagination_limit limit_reached team_quota_exceeded
    configuration: unknown_method method_deprecated deprecated_endpoint posting_to_general_channel_denied
      invalid_app_id
""")
"""Category by Slack's error code. Other codes, except ``…_not_found``, mean that the request is not valid."""


def judge_slack_code(code: str) -> Category:
    """Return the category of a Slack error code. There are hundreds; all temporary ones are in the table."""
    if code.endswith("_not_found") or code.startswith("no_such"):
        return _C.NOT_FOUND
    return CODES.get(code, _C.INVALID_PARAMETERS)


def read_api_error(error: object) -> Found:
    """The response's error code, unless the status already means an outage or a rate limit."""
    response = safe_getattr(error, "response")
    data = response if isinstance(response, dict) else safe_getattr(response, "data")
    code = safe_item(data, "error")
    code = code[:_CODE_LIMIT] if isinstance(code, str) and code.replace("_", "").isalnum() else None
    status = status_of(safe_getattr(response, "status_code"))
    failing = status is not None and category_of_status(status) is not None
    return Evidence(
        origin=Origin.HTTP,
        http_status=status,
        headers=read_headers(safe_getattr(response, "headers")),
        code=code,
        category=judge_slack_code(code) if code and (not failing or code in CODES) else None,
        credentials_sent=True,
    )


def read_request_error(error: object) -> Found:
    """Whether the text names a wrong URL or proxy, which is a configuration error."""
    wrong_setting = text_of(error).startswith(("Invalid URL detected", "Invalid proxy detected"))
    return Evidence(category=_C.CONFIGURATION) if wrong_setting else None


LIBRARY = Library(
    title="slack_sdk",
    packages="slack_sdk",
    origin=Origin.HTTP,
    categories={
        _C.NETWORK: "SlackClientNotConnectedError",
        _C.AUTHENTICATION: "BotUserAccessError SlackTokenRotationError",
        _C.CONFIGURATION: "SlackClientConfigurationError",
        _C.INVALID_PARAMETERS: "SlackRequestError SlackObjectFormationError",
        _C.DATA: "SlackApiError",
    },
    readers={
        "SlackApiError": read_api_error,
        "SlackTokenRotationError": wrapped("api_error"),
        "SlackRequestError": read_request_error,
    },
    says_nothing="SlackClientError",
)
