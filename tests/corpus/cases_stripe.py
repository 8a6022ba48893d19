"""stripe: its real client against answers of its API, which says 402 for a card and 409 for a lock."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import RETRYABLE, Category, Origin

if TYPE_CHECKING:
    from collections.abc import Callable

C = Category


def _client(url: str, **options: Any) -> Any:
    import stripe

    addresses = {"api": url.rstrip("/"), "connect": url.rstrip("/")}
    return stripe.StripeClient("sk_test_s3cret", base_addresses=addresses, max_network_retries=0, **options)


def _charge(url: str, **options: Any) -> BaseException:
    client = _client(url, **options)
    return caught(client.v1.customers.retrieve, "cus_1")


def _body(kind: str, code: str | None = None, decline: str | None = None) -> str:
    error = {"type": kind, "message": "No.", "code": code, "decline_code": decline}
    return json.dumps({"error": {key: value for key, value in error.items() if value is not None}})


_INVALID, _API, _CARD, _IDEMPOTENCY = "invalid_request_error", "api_error", "card_error", "idempotency_error"

# name, status, type, code, decline code, category
ANSWERS: list[tuple[str, int, str, str | None, str | None, Category]] = [
    ("429", 429, _INVALID, "rate_limit", None, C.RATE_LIMIT),
    ("429-lock-timeout", 429, _INVALID, "lock_timeout", None, C.API_TEMPORARY),
    ("400-rate-limit", 400, _INVALID, "rate_limit", None, C.RATE_LIMIT),
    ("400-parameter", 400, _INVALID, "parameter_missing", None, C.INVALID_PARAMETERS),
    ("400-idempotency", 400, _IDEMPOTENCY, None, None, C.INVALID_PARAMETERS),
    ("409-idempotency-in-use", 409, _IDEMPOTENCY, "idempotency_key_in_use", None, C.API_TEMPORARY),
    ("409", 409, _INVALID, None, None, C.API_TEMPORARY),
    ("401", 401, _INVALID, None, None, C.AUTHENTICATION),
    ("401-expired", 401, _INVALID, "api_key_expired", None, C.AUTHENTICATION),
    ("403", 403, _INVALID, None, None, C.AUTHENTICATION),
    ("404-resource-missing", 404, _INVALID, "resource_missing", None, C.NOT_FOUND),
    ("400-resource-missing", 400, _INVALID, "resource_missing", None, C.NOT_FOUND),
    ("402-declined", 402, _CARD, "card_declined", "generic_decline", C.INVALID_PARAMETERS),
    ("402-no-funds", 402, _CARD, "card_declined", "insufficient_funds", C.INVALID_PARAMETERS),
    ("402-expired-card", 402, _CARD, "expired_card", None, C.INVALID_PARAMETERS),
    ("402-processing-error", 402, _CARD, "processing_error", None, C.API_TEMPORARY),
    ("402-issuer-away", 402, _CARD, "card_declined", "issuer_not_available", C.API_TEMPORARY),
    ("402-try-again", 402, _CARD, "card_declined", "try_again_later", C.API_TEMPORARY),
    ("500", 500, _API, None, None, C.API_TEMPORARY),
    ("503", 503, _API, None, None, C.API_TEMPORARY),
]


def _answer_case(row: tuple[Any, ...]) -> Case:
    name, status, kind, code, decline, category = row

    def produce(world: World) -> BaseException:
        return _charge(world.faults.base(status, {"Content-Type": "application/json"}, _body(kind, code, decline)))

    retryable, shown = category in RETRYABLE, decline or code
    return Case(f"stripe/{name}", produce, category, retryable, http_status=status, code=shown, origin=Origin.HTTP)


def _case(name: str, produce: Callable[[Any], Any], category: Category, **more: Any) -> Case:
    retryable = more.pop("retryable", category in RETRYABLE)
    return Case(f"stripe/{name}", lambda world: produce(world.faults), category, retryable, **more)


def _told(said: str, status: int, server: Any) -> BaseException:
    return _charge(server.base(status, {"Stripe-Should-Retry": said}, _body(_API)))


def _later(server: Any) -> BaseException:
    return _charge(server.base(429, {"Retry-After": "8"}, _body(_INVALID, "rate_limit")))


def _bad_signature(_server: Any) -> BaseException:
    import stripe

    return caught(stripe.Webhook.construct_event, "{}", "t=1,v1=beef", "whsec_s3cret")


def _no_key(_server: Any) -> BaseException:
    import stripe

    return caught(stripe.Customer.retrieve, "cus_1")


def _timeout(server: Any) -> BaseException:
    import stripe

    return _charge(server.fault("stall"), http_client=stripe.HTTPXClient(timeout=0.1, allow_sync_methods=True))


def _oauth(code: str, status: int, server: Any) -> BaseException:
    body = json.dumps({"error": code, "error_description": "No."})
    client = _client(server.base(status, {"Content-Type": "application/json"}, body), client_id="ca_1")
    return caught(client.oauth.token, params={"grant_type": "authorization_code", "code": "ac_1"})


CASES = [
    *(_answer_case(row) for row in ANSWERS),
    _case("429-retry-after", _later, C.RATE_LIMIT, retry_after=8, http_status=429),
    _case("told-to-retry", partial(_told, "true", 400), C.INVALID_PARAMETERS, retryable=True),
    _case("told-not-to-retry", partial(_told, "false", 500), C.API_TEMPORARY, retryable=False),
    _case("refused", lambda s: _charge(s.refused_url), C.NETWORK, origin=Origin.HTTP),
    _case("reset", lambda s: _charge(s.fault("reset")), C.NETWORK, origin=Origin.HTTP),
    _case("timeout", _timeout, C.NETWORK, origin=Origin.HTTP),
    _case("no-scheme", lambda _: _charge("localhost:8080"), C.CONFIGURATION),
    _case("500-html", lambda s: _charge(s.base(500, {}, "<h1>oops</h1>")), C.API_TEMPORARY, http_status=500),
    _case("200-html", lambda s: _charge(s.base(200, {}, "<h1>hello</h1>")), C.DATA),
    _case("no-key", _no_key, C.CONFIGURATION),
    _case("webhook-signature", _bad_signature, C.AUTHENTICATION),
    _case("oauth-invalid-grant", partial(_oauth, "invalid_grant", 400), C.AUTHENTICATION, http_status=400),
    _case("oauth-invalid-client", partial(_oauth, "invalid_client", 401), C.AUTHENTICATION, http_status=401),
    _case("oauth-scope", partial(_oauth, "invalid_scope", 400), C.INVALID_PARAMETERS, http_status=400),
]
