"""openai and anthropic: their real clients against answers of their APIs, as the providers document them."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

from corpus.case import Case, World, caught
from outlast import RETRYABLE, Category, Origin

if TYPE_CHECKING:
    from collections.abc import Callable

C = Category
_JSON = {"Content-Type": "application/json"}
_STREAM = {"Content-Type": "text/event-stream"}


def _openai(url: str, **options: Any) -> Any:
    import openai

    return openai.OpenAI(api_key="sk-s3cret", base_url=url, max_retries=0, timeout=options.pop("timeout", 5), **options)


def _anthropic(url: str, **options: Any) -> Any:
    import anthropic

    timeout = options.pop("timeout", 5)
    return anthropic.Anthropic(api_key="sk-s3cret", base_url=url, max_retries=0, timeout=timeout, **options)


def _ask_openai(url: str, **options: Any) -> object:
    with _openai(url, **options) as client:
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])


def _ask_anthropic(url: str, **options: Any) -> object:
    with _anthropic(url, **options) as client:
        return client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "?"}])


def _stream_openai(url: str) -> object:
    with _openai(url) as client:
        return list(client.chat.completions.create(model="m", messages=[], stream=True))


def _stream_anthropic(url: str) -> object:
    with _anthropic(url) as client:
        return list(client.messages.create(model="m", max_tokens=5, messages=[], stream=True))


def _openai_body(code: str | None, kind: str, message: str = "No.") -> str:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _anthropic_body(kind: str, message: str = "No.", error_code: str = "") -> str:
    details = {"details": {"error_code": error_code}} if error_code else {}
    return json.dumps({"type": "error", "error": {"type": kind, "message": message, **details}})


_INVALID = "invalid_request_error"

# name, status, code, type, headers, category, seconds
OPENAI: list[tuple[str, int, str | None, str, dict[str, str], Category, float | None]] = [
    ("429-retry-after", 429, "rate_limit_exceeded", "requests", {"Retry-After": "20"}, C.RATE_LIMIT, 20),
    ("429-retry-after-ms", 429, "rate_limit_exceeded", "tokens", {"Retry-After-Ms": "1500"}, C.RATE_LIMIT, 1.5),
    (
        "429-reset-requests",
        429,
        "rate_limit_exceeded",
        "requests",
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"},
        C.RATE_LIMIT,
        360,
    ),
    ("429-insufficient-quota", 429, "insufficient_quota", "insufficient_quota", {}, C.QUOTA_EXHAUSTED, None),
    ("429-quota-by-type", 429, None, "insufficient_quota", {}, C.QUOTA_EXHAUSTED, None),
    ("429-billing-limit", 429, "billing_hard_limit_reached", _INVALID, {}, C.QUOTA_EXHAUSTED, None),
    ("429-billing-not-active", 429, "billing_not_active", "billing_not_active", {}, C.QUOTA_EXHAUSTED, None),
    ("429-no-credits", 429, "credit_balance_exhausted", "billing", {}, C.QUOTA_EXHAUSTED, None),
    ("429-organization-spend", 429, "organization_spend_limit_exceeded", "billing", {}, C.QUOTA_EXHAUSTED, None),
    ("429-project-spend", 429, "project_spend_limit_exceeded", "billing", {}, C.QUOTA_EXHAUSTED, None),
    ("429-organization-usage", 429, "organization_usage_limit_exceeded", "billing", {}, C.QUOTA_EXHAUSTED, None),
    ("429-slow-down", 429, "slow_down", "rate_limit_error", {}, C.RATE_LIMIT, None),
    ("503-no-capacity", 503, "server_is_overloaded", "service_unavailable_error", {}, C.API_TEMPORARY, None),
    ("400-context-length", 400, "context_length_exceeded", _INVALID, {}, C.INVALID_PARAMETERS, None),
    ("400-content-policy", 400, "content_policy_violation", _INVALID, {}, C.INVALID_PARAMETERS, None),
    ("400-azure-content-filter", 400, "content_filter", _INVALID, {}, C.INVALID_PARAMETERS, None),
    ("401-invalid-api-key", 401, "invalid_api_key", _INVALID, {}, C.AUTHENTICATION, None),
    ("403-country", 403, "unsupported_country_region_territory", "request_forbidden", {}, C.ACCESS_DENIED, None),
    ("403-permission", 403, None, _INVALID, {}, C.AUTHENTICATION, None),
    ("404-model", 404, "model_not_found", _INVALID, {}, C.NOT_FOUND, None),
    ("404-no-code", 404, None, _INVALID, {}, C.NOT_FOUND, None),
    ("409-lock", 409, None, _INVALID, {}, C.API_TEMPORARY, None),
    ("413-too-large", 413, None, _INVALID, {}, C.INVALID_PARAMETERS, None),
    ("422-unprocessable", 422, None, _INVALID, {}, C.INVALID_PARAMETERS, None),
    ("500-server-error", 500, None, "server_error", {}, C.API_TEMPORARY, None),
    ("503-overloaded", 503, None, "service_unavailable_error", {"Retry-After": "3"}, C.API_TEMPORARY, 3),
    ("503-slow-down", 503, "slow_down", "service_unavailable_error", {}, C.RATE_LIMIT, None),
]

# name, status, type, error code, headers, category, seconds
ANTHROPIC: list[tuple[str, int, str, str, dict[str, str], Category, float | None]] = [
    ("429-retry-after", 429, "rate_limit_error", "", {"Retry-After": "12"}, C.RATE_LIMIT, 12),
    ("429-ramp-limit", 429, "rate_limit_error", "ramp_limit_exceeded", {"Retry-After": "9"}, C.RATE_LIMIT, 9),
    ("429-spend-limit", 429, "rate_limit_error", "enforced_spend_limit_reached", {}, C.QUOTA_EXHAUSTED, None),
    ("402-billing", 402, "billing_error", "", {}, C.QUOTA_EXHAUSTED, None),
    ("400-invalid", 400, _INVALID, "", {}, C.INVALID_PARAMETERS, None),
    ("400-storage-quota", 400, _INVALID, "storage_quota_exceeded", {}, C.QUOTA_EXHAUSTED, None),
    ("400-on-hold", 400, _INVALID, "organization_on_hold", {}, C.AUTHENTICATION, None),
    ("401-key", 401, "authentication_error", "", {}, C.AUTHENTICATION, None),
    ("403-permission", 403, "permission_error", "", {}, C.AUTHENTICATION, None),
    ("404-model", 404, "not_found_error", "", {}, C.NOT_FOUND, None),
    ("409-name-taken", 409, "conflict_error", "skill_name_taken", {}, C.INVALID_PARAMETERS, None),
    ("409-scan-pending", 409, "conflict_error", "scan_pending", {}, C.API_TEMPORARY, None),
    ("413-too-large", 413, "request_too_large", "", {}, C.INVALID_PARAMETERS, None),
    ("422-unprocessable", 422, _INVALID, "", {}, C.INVALID_PARAMETERS, None),
    ("500-api-error", 500, "api_error", "", {}, C.API_TEMPORARY, None),
    ("504-timeout", 504, "timeout_error", "", {}, C.API_TEMPORARY, None),
    ("529-overloaded", 529, "overloaded_error", "", {"Retry-After": "4"}, C.API_TEMPORARY, 4),
]


def _status_case(library: str, row: tuple[Any, ...]) -> Case:
    name, status, first, second, headers, category, seconds = row
    body = _openai_body(first, second) if library == "openai" else _anthropic_body(first, error_code=second)
    code = (first or second) if library == "openai" else (second or first)
    ask = _ask_openai if library == "openai" else _ask_anthropic

    def produce(world: World) -> BaseException:
        return caught(ask, world.faults.base(status, {**_JSON, **headers}, body))

    retryable = category in RETRYABLE
    return Case(
        f"{library}/{name}",
        produce,
        category,
        retryable,
        retry_after=seconds,
        http_status=status,
        code=code,
        origin=Origin.HTTP,
    )


def _case(name: str, produce: Callable[[Any], BaseException], category: Category, **more: Any) -> Case:
    more.setdefault("origin", Origin.HTTP)
    retryable = more.pop("retryable", category in RETRYABLE)
    return Case(name, lambda world: produce(world.faults), category, retryable, **more)


def _told(said: str, status: int, ask: Callable[[str], object], server: Any) -> BaseException:
    """An answer whose server says itself whether to try again."""
    return caught(ask, server.base(status, {**_JSON, "x-should-retry": said}, _openai_body(None, "other")))


def _low_balance(server: Any) -> BaseException:
    message = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
    return caught(_ask_anthropic, server.base(400, _JSON, _anthropic_body(_INVALID, message)))


def _overloaded_stream(server: Any) -> BaseException:
    event = f"event: error\ndata: {_anthropic_body('overloaded_error', 'Overloaded')}\n\n"
    return caught(_stream_anthropic, server.base(200, _STREAM, event))


def _invalid_stream(server: Any) -> BaseException:
    event = f"event: error\ndata: {_anthropic_body(_INVALID)}\n\n"
    return caught(_stream_anthropic, server.base(200, _STREAM, event))


def _broken_stream(server: Any) -> BaseException:
    body = _openai_body(None, "server_error", "The server had an error while processing your request.")
    return caught(_stream_openai, server.base(200, _STREAM, f"data: {body}\n\n"))


def _completion(reason: str) -> str:
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": None}}
    return json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


def _parsed(reason: str, server: Any) -> BaseException:
    """A structured answer that the model did not finish."""
    from pydantic import BaseModel

    class Answer(BaseModel):
        number: int

    with _openai(server.base(200, _JSON, _completion(reason))) as client:
        return caught(client.chat.completions.parse, model="m", messages=[], response_format=Answer)


def _strict(ask: Callable[..., object], server: Any) -> BaseException:
    return caught(ask, server.base(200, _JSON, '{"id": 3}'), _strict_response_validation=True)


def _without_key(make: Callable[[], object]) -> BaseException:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "ANTHROPIC_"))}
    with mock.patch.dict(os.environ, {**kept, "HOME": "/nonexistent"}, clear=True):
        return caught(make)


def _no_openai_key(_server: Any) -> BaseException:
    import openai

    return _without_key(openai.OpenAI)


def _no_anthropic_key(server: Any) -> BaseException:
    import anthropic

    def ask() -> object:
        with anthropic.Anthropic(base_url=server.url(), max_retries=0) as client:
            return client.messages.create(model="m", max_tokens=5, messages=[])

    return _without_key(ask)


def _bad_signature(_server: Any) -> BaseException:
    with _openai("http://127.0.0.1:9/") as client:
        headers = {"webhook-signature": "v1,bm8=", "webhook-timestamp": "1", "webhook-id": "w"}
        return caught(client.webhooks.unwrap, "{}", headers, secret="whsec_czNjcmV0")


_CLIENTS = (("openai", _ask_openai), ("anthropic", _ask_anthropic))

CASES = [
    *(_status_case("openai", row) for row in OPENAI),
    *(_status_case("anthropic", row) for row in ANTHROPIC),
    *(
        case
        for library, ask in _CLIENTS
        for case in (
            _case(f"{library}/told-to-retry", partial(_told, "true", 400, ask), C.INVALID_PARAMETERS, retryable=True),
            _case(f"{library}/told-not-to-retry", partial(_told, "false", 503, ask), C.API_TEMPORARY, retryable=False),
            _case(f"{library}/refused", lambda s, ask=ask: caught(ask, s.refused_url), C.NETWORK),
            _case(f"{library}/reset", lambda s, ask=ask: caught(ask, s.fault("reset")), C.NETWORK),
            _case(f"{library}/timeout", lambda s, ask=ask: caught(ask, s.fault("stall"), timeout=0.1), C.NETWORK),
            _case(f"{library}/no-scheme", lambda _, ask=ask: caught(ask, "localhost:8080"), C.CONFIGURATION),
            _case(f"{library}/untrusted", lambda s, ask=ask: caught(ask, s.tls("untrusted")), C.NETWORK),
            _case(f"{library}/bad-json", lambda s, ask=ask: caught(ask, s.fault("bad-json")), C.DATA, origin=None),
            _case(f"{library}/validation", partial(_strict, ask), C.DATA),
        )
    ),
    _case("anthropic/400-low-balance", _low_balance, C.QUOTA_EXHAUSTED, http_status=400),
    _case("anthropic/stream-overloaded", _overloaded_stream, C.API_TEMPORARY, code="overloaded_error"),
    _case("anthropic/stream-invalid", _invalid_stream, C.INVALID_PARAMETERS, code=_INVALID),
    _case("anthropic/no-key", _no_anthropic_key, C.CONFIGURATION, origin=None),
    _case("openai/stream-server-error", _broken_stream, C.API_TEMPORARY, code="server_error"),
    _case("openai/finish-content-filter", partial(_parsed, "content_filter"), C.INVALID_PARAMETERS),
    _case("openai/finish-length", partial(_parsed, "length"), C.DATA),
    _case("openai/no-key", _no_openai_key, C.CONFIGURATION),
    _case("openai/webhook-signature", _bad_signature, C.AUTHENTICATION),
]
