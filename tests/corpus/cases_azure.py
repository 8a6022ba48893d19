"""azure-core: a client built from real pipelines, blocking and async, against loopback answers; and httplib2 by itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from corpus.case import Case, caught, caught_async
from outlast import Category, Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from corpus.case import World

_RETRIED = frozenset({Category.NETWORK, Category.RATE_LIMIT, Category.API_TEMPORARY})
_JSON = {"Content-Type": "application/json"}


def _check(response: Any) -> None:
    """Raise for a bad status as the generated code of every Azure SDK does."""
    from azure.core import exceptions

    kinds = {
        304: exceptions.ResourceNotModifiedError,
        401: exceptions.ClientAuthenticationError,
        404: exceptions.ResourceNotFoundError,
        409: exceptions.ResourceExistsError,
        412: exceptions.ResourceModifiedError,
    }
    if response.status_code != 200:
        exceptions.map_error(status_code=response.status_code, response=response, error_map=kinds)
        raise exceptions.HttpResponseError(response=response)


def _ask(url: str, *, headers: dict[str, str] | None = None, stream: bool = False, timeout: float = 5) -> BaseException:
    from azure.core import PipelineClient
    from azure.core.pipeline import policies
    from azure.core.rest import HttpRequest

    def fetch() -> None:
        steps = [policies.RedirectPolicy(), policies.RetryPolicy.no_retries(), policies.ContentDecodePolicy()]
        with PipelineClient("", policies=steps) as client:
            how = {"connection_timeout": timeout, "read_timeout": timeout}
            response = client.send_request(HttpRequest("GET", url, headers=headers), stream=stream, **how)
            if stream:
                list(response.iter_bytes())
            _check(response)

    return caught(fetch)


def _ask_async(url: str, *, timeout: float = 5) -> BaseException:
    from azure.core import AsyncPipelineClient
    from azure.core.pipeline import policies
    from azure.core.rest import HttpRequest

    async def fetch() -> None:
        async with AsyncPipelineClient("", policies=[policies.AsyncRetryPolicy.no_retries()]) as client:
            how = {"connection_timeout": timeout, "read_timeout": timeout}
            _check(await client.send_request(HttpRequest("GET", url), **how))

    return caught_async(fetch)


def _body(code: str, message: str = "some words", inner: str = "") -> str:
    more = {"innererror": {"code": inner}} if inner else {}
    return json.dumps({"error": {"code": code, "message": message, **more}})


_XML = {"Content-Type": "application/xml", "x-ms-error-code": "BlobNotFound"}
_SIGNED = {"Authorization": "Bearer s3cret"}
_BUSY = "Operations per second is over the account limit."
_BAD, _LOGIN, _TEMPORARY = Category.INVALID_PARAMETERS, Category.AUTHENTICATION, Category.API_TEMPORARY

# name, status, category, response headers, body, and what the failure has to carry
ANSWERS: list[tuple[str, int, Category, dict[str, str], str, dict[str, Any]]] = [
    ("invalid-input", 400, _BAD, _JSON, _body("InvalidInput"), {"code": "InvalidInput"}),
    ("plain", 401, _LOGIN, {}, "", {}),
    ("expired-token", 401, _LOGIN, _JSON, _body("ExpiredAuthenticationToken"), {"code": "ExpiredAuthenticationToken"}),
    ("plain", 403, Category.ACCESS_DENIED, {}, "", {}),
    ("authorization-failed", 403, _LOGIN, _JSON, _body("AuthorizationFailed"), {"code": "AuthorizationFailed"}),
    ("quota", 403, Category.QUOTA_EXHAUSTED, _JSON, _body("QuotaExceeded"), {"code": "QuotaExceeded"}),
    ("plain", 404, Category.NOT_FOUND, _JSON, _body("ResourceNotFound"), {"code": "ResourceNotFound"}),
    (
        "header-code",
        404,
        Category.NOT_FOUND,
        _XML,
        "<Error><Code>BlobNotFound</Code></Error>",
        {"code": "BlobNotFound"},
    ),
    ("no-subscription", 404, Category.CONFIGURATION, _JSON, _body("SubscriptionNotFound"), {}),
    ("exists", 409, _BAD, _JSON, _body("ContainerAlreadyExists"), {"code": "ContainerAlreadyExists"}),
    ("being-deleted", 409, _TEMPORARY, _JSON, _body("ContainerBeingDeleted"), {"code": "ContainerBeingDeleted"}),
    ("in-progress", 409, _TEMPORARY, _JSON, _body("AnotherOperationInProgress"), {}),
    ("modified", 412, _BAD, _JSON, _body("ConditionNotMet"), {"code": "ConditionNotMet"}),
    ("retry-after", 429, Category.RATE_LIMIT, {"Retry-After": "23"}, "", {"retry_after": 23}),
    ("retry-after-ms", 429, Category.RATE_LIMIT, {"x-ms-retry-after-ms": "1500"}, "", {"retry_after": 1.5}),
    ("insufficient-quota", 429, Category.QUOTA_EXHAUSTED, _JSON, _body("insufficient_quota"), {}),
    ("inner-code", 400, Category.QUOTA_EXHAUSTED, _JSON, _body("BadRequest", inner="QuotaExceeded"), {}),
    ("internal", 500, _TEMPORARY, _JSON, _body("InternalError"), {"code": "InternalError"}),
    ("timed-out", 500, _TEMPORARY, _JSON, _body("OperationTimedOut"), {"code": "OperationTimedOut"}),
    ("not-implemented", 501, _BAD, {}, "", {}),
    ("busy", 503, _TEMPORARY, _JSON, _body("ServerBusy"), {"code": "ServerBusy"}),
    ("busy-over-limit", 503, Category.RATE_LIMIT, _JSON, _body("ServerBusy", _BUSY), {"code": "ServerBusy"}),
    ("retry-after", 503, _TEMPORARY, {"Retry-After": "8"}, "", {"retry_after": 8}),
    ("json-that-is-none", 503, _TEMPORARY, _JSON, "<html>later</html>", {}),
    ("json-that-is-none", 200, Category.DATA, _JSON, "<html>Please log in</html>", {}),
]


def _stalled(world: World) -> BaseException:
    return _ask(world.faults.fault("stall"), timeout=0.1)


def _deserialized(world: World) -> BaseException:
    """Read an answer as a poller for a long-running operation does."""
    from azure.core import PipelineClient
    from azure.core.pipeline.policies import RetryPolicy
    from azure.core.polling.base_polling import _as_json
    from azure.core.rest import HttpRequest

    with PipelineClient("", policies=[RetryPolicy.no_retries()]) as client:
        return caught(_as_json, client.send_request(HttpRequest("GET", world.faults.fault("bad-json"))))


def _fetch(url: str, **how: Any) -> BaseException:
    import httplib2

    return caught(httplib2.Http(timeout=how.pop("timeout", 5), **how).request, url)


def _case(name: str, produce: Callable[[World], BaseException], category: Category, **more: Any) -> Case:
    return Case(name, produce, category, category in _RETRIED, **({"origin": Origin.HTTP} | more))


def _answered(row: tuple[Any, ...], ask: Callable[[str], BaseException], way: str) -> Case:
    name, status, category, headers, body, carries = row
    return _case(
        f"{way}/{status}-{name}",
        lambda world: ask(world.faults.base(status, headers, body)),
        category,
        **({"http_status": status} | carries),
    )


CASES = [
    *(_answered(row, _ask, "azure") for row in ANSWERS),
    *(
        _answered(row, _ask_async, "azure-async")
        for row in ANSWERS
        if row[1] in {404, 429, 503} and "none" not in row[0]
    ),
    _case(
        "azure/403-token",
        lambda world: _ask(world.faults.base(403), headers=_SIGNED),
        Category.AUTHENTICATION,
        http_status=403,
    ),
    _case("azure/refused", lambda world: _ask(world.faults.refused_url), Category.NETWORK),
    _case("azure/unresolvable", lambda world: _ask(world.faults.unresolvable_url), Category.NETWORK),
    _case("azure/reset", lambda world: _ask(world.faults.fault("reset")), Category.NETWORK),
    _case("azure/close", lambda world: _ask(world.faults.fault("close")), Category.NETWORK),
    _case("azure/stall", _stalled, Category.NETWORK),
    _case("azure/truncated", lambda world: _ask(world.faults.fault("truncated"), stream=True), Category.NETWORK),
    _case("azure/truncated-chunk", lambda world: _ask(world.faults.fault("truncated-chunk")), Category.NETWORK),
    _case("azure/broken-gzip", lambda world: _ask(world.faults.fault("broken-gzip")), Category.DATA),
    _case("azure/redirect-loop", lambda world: _ask(world.faults.fault("redirect-loop")), Category.DATA),
    _case("azure/tls-untrusted", lambda world: _ask(world.faults.tls("untrusted")), Category.NETWORK),
    _case("azure/scheme-unsupported", lambda _: _ask("htp://example.test/"), Category.CONFIGURATION),
    _case("azure/bad-json", _deserialized, Category.DATA),
    _case("azure-async/refused", lambda world: _ask_async(world.faults.refused_url), Category.NETWORK),
    _case("azure-async/reset", lambda world: _ask_async(world.faults.fault("reset")), Category.NETWORK),
    _case("azure-async/stall", lambda world: _ask_async(world.faults.fault("stall"), timeout=0.1), Category.NETWORK),
    _case("azure-async/truncated", lambda world: _ask_async(world.faults.fault("truncated")), Category.NETWORK),
    _case("httplib2/unresolvable", lambda world: _fetch(world.faults.unresolvable_url), Category.NETWORK),
    _case("httplib2/refused", lambda world: _fetch(world.faults.refused_url), Category.NETWORK, origin=None),
    _case("httplib2/stall", lambda w: _fetch(w.faults.fault("stall"), timeout=0.1), Category.NETWORK, origin=None),
    _case(
        "httplib2/redirect-loop",
        lambda world: _fetch(world.faults.fault("redirect-loop")),
        Category.DATA,
        http_status=302,
    ),
    _case("httplib2/redirect-nowhere", lambda world: _fetch(world.faults.base(302)), Category.DATA, http_status=302),
    _case(
        "httplib2/broken-gzip", lambda world: _fetch(world.faults.fault("broken-gzip")), Category.DATA, http_status=200
    ),
    _case("httplib2/relative-url", lambda _: _fetch("/feed"), Category.CONFIGURATION),
]
